"""Several machines on one: network namespaces on a switch of their own, and links that can be cut, slowed and
mended.  Nothing of it is in the namespace that the caller is in.

    with Network(["one", "two"]) as network:
        subprocess.run([*network.on("two"), "curl", "http://%s:80" % network.address("one")])
        network.limit("one", megabytes=10)
        network.cut("two")

Network.refusal() says why there can be none here: not root, no `ip` (Debian's iproute2), or a kernel that
refuses namespaces.
"""
import contextlib
import ctypes
import os
import subprocess

SWITCH = "switch"
#  A burst holds what a tick of the kernel's clock lets through; what waits longer is dropped, as by a switch.
BURST_S, WAIT_MS = 0.01, 50
BURST_LEAST = 1 << 16


class NetworkRefused(Exception):
    """A namespace, or something in it, cannot be had."""


def _call(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True)
    except FileNotFoundError:
        raise NetworkRefused("there is no program `%s` (apt install iproute2)" % command[0]) from None
    if done.returncode:
        raise NetworkRefused("`%s`: %s" % (" ".join(command), done.stdout.strip()))


class Network:
    """machines: their names, 8 characters at most, none of them "switch"."""

    def __init__(self, machines):
        self.machines = list(machines)
        self._made = []

    @classmethod
    def refusal(cls):
        """Why there can be no network here; None: there can."""
        try:
            with cls(["trial"]) as network:
                network.limit("trial", megabytes=1)
        except NetworkRefused as refused:
            return str(refused)
        return None

    def __enter__(self):
        try:
            self._namespace(SWITCH)
            _call("ip", "-n", self._name(SWITCH), "link", "add", "bridge", "type", "bridge")
            _call("ip", "-n", self._name(SWITCH), "link", "set", "bridge", "up")
            for machine in self.machines:
                self._add(machine)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in reversed(self._made):
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
        self._made = []

    def _name(self, machine):
        return "tureen-%d-%s" % (os.getpid(), machine)

    def _namespace(self, machine):
        _call("ip", "netns", "add", self._name(machine))
        self._made.append(self._name(machine))
        _call("ip", "-n", self._name(machine), "link", "set", "lo", "up")

    def _add(self, machine):
        """A machine with one interface, `net`, that leads to a port of the switch."""
        self._namespace(machine)
        name, switch = self._name(machine), self._name(SWITCH)
        _call("ip", "-n", switch, "link", "add", machine, "type", "veth", "peer", "name", "net",
              "netns", name)
        _call("ip", "-n", switch, "link", "set", machine, "master", "bridge", "up")
        _call("ip", "-n", name, "address", "add", self.address(machine) + "/24", "dev", "net")
        _call("ip", "-n", name, "link", "set", "net", "up")

    def address(self, machine):
        return "10.0.0.%d" % (self.machines.index(machine) + 1)

    def on(self, machine):
        """What to put before a command that is to run on the machine.  It becomes the command's process."""
        return ["nsenter", "--net=/run/netns/" + self._name(machine), "--"]

    @contextlib.contextmanager
    def inside(self, machine):
        """Sockets that this thread makes meanwhile are the machine's."""
        here, there = (os.open(path, os.O_RDONLY) for path in (
            "/proc/thread-self/ns/net", "/run/netns/" + self._name(machine)))
        try:
            self._enter(there)
            yield
        finally:
            self._enter(here)
            os.close(here)
            os.close(there)

    @staticmethod
    def _enter(descriptor):
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0):
            raise NetworkRefused("setns: %s" % os.strerror(ctypes.get_errno()))

    def cut(self, machine):
        """Nothing goes in or out any more, and nothing says so, as if a cable were pulled at the switch."""
        _call("ip", "-n", self._name(SWITCH), "link", "set", machine, "down")

    def mend(self, machine):
        _call("ip", "-n", self._name(SWITCH), "link", "set", machine, "up")

    def limit(self, machine, megabytes):
        """So many megabytes a second, in each direction."""
        rate = int(megabytes * 1e6)
        burst = max(BURST_LEAST, int(rate * BURST_S))
        for namespace, device in ((SWITCH, machine), (machine, "net")):
            _call("tc", "-n", self._name(namespace), "qdisc", "replace", "dev", device, "root", "tbf",
                  "rate", "%dbit" % (8 * rate), "burst", str(burst), "latency", "%dms" % WAIT_MS)
