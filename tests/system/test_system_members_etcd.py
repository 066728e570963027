"""Servers that keep blocks for each other, and find each other in a real etcd: they come and go, and etcd
dies, one of three and all of them."""
import base64
import json
import os
import shutil
import subprocess
import unittest
import urllib.request

from harness import free_port, wait_until
from test_system_members import Members


class Etcd:
    """One of a cluster of real etcds, each with its folder and two ports."""

    def __init__(self, folder, ports, number, hosts=None, wrapper=()):
        """ports: of each etcd, for clients and for others.  hosts: their addresses; None: the loopback."""
        self.folder, self.number = os.path.join(folder, "etcd-%d" % number), number
        hosts = hosts or ["127.0.0.1"] * len(ports)
        self.ports, self.host = ports[number], hosts[number]
        peers = ["e%d=http://%s:%d" % (at, host, pair[1])
                 for at, (host, pair) in enumerate(zip(hosts, ports))]
        own = ["http://%s:%d" % (self.host, port) for port in self.ports]
        self.command = [*wrapper, "etcd", "--name", "e%d" % number, "--data-dir", self.folder,
                        "--listen-client-urls", own[0], "--advertise-client-urls", own[0],
                        "--listen-peer-urls", own[1], "--initial-advertise-peer-urls", own[1],
                        "--initial-cluster", ",".join(peers), "--unsafe-no-fsync"]
        self.process = None

    def start(self):
        with open(self.folder + ".log", "a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
        return self

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def put(self, key, value):
        self.call("kv/put", {"key": base64.b64encode(key.encode()).decode(),
                             "value": base64.b64encode(value.encode()).decode()})

    def call(self, path, body):
        request = urllib.request.Request("http://%s:%d/v3/%s" % (self.host, self.ports[0], path),
                                         json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read()

    def is_well(self):
        try:
            return self.call("kv/range", {"key": "Zm9v"})
        except OSError:
            return None


@unittest.skipUnless(shutil.which("etcd"), "there is no etcd (apt install etcd-server)")
class InEtcd(Members):
    def begin_etcd(self, count):
        ports = [(free_port(), free_port()) for _ in range(count)]
        self.etcds = [Etcd(self.caches, ports, number) for number in range(count)]
        for etcd in self.etcds:
            etcd.start()
            self.addCleanup(etcd.kill)
        wait_until("etcd answers", lambda: all(etcd.is_well() for etcd in self.etcds))
        return "etcd://%s/tureen/test" % ",".join("127.0.0.1:%d" % etcd.ports[0] for etcd in self.etcds)

    def known(self, server):
        return sorted(member["member"] for member in self.cluster(server)["members"])

    def wait_for(self, servers, names):
        wait_until("all know %s" % names, lambda: all(self.known(server) == sorted(names)
                                                     for server in servers))

    def test_members_come_and_go(self):
        """The store sends each block once, though the third server comes later and the second is killed."""
        address = self.begin_etcd(1)
        servers = self.serve(2, 1.2, members=address)
        right = self.right(2, 2)
        self.wait_for(servers, self.names)
        self.assert_sent(servers, 1.05 * self.bytes)
        self.names.append("127.0.0.1:%d" % free_port())
        servers.append(self.server(2, 1.2, members=address))
        self.wait_for(servers, self.names)
        self.assert_sent(servers, .05 * self.bytes, 2)
        jobs = self.begin([servers[0], servers[2]], 2)
        servers[1].kill()
        self.wait_for([servers[0], servers[2]], [self.names[0], self.names[2]])
        servers[1].start()
        self.wait_for(servers, self.names)
        self.assertEqual(self.finish(jobs, 2), right)
        servers[2].stop()
        self.wait_for(servers[:2], self.names[:2])
        servers[2].start()
        for server in servers:
            self.assertEqual(self.cluster(server)["trouble"], "")

    def test_etcd_dies(self):
        """One of three: nothing is noticed.  All three: the list stays, and the trouble is said; when they
        are back, with their data or with none, so are the members."""
        address = self.begin_etcd(3)
        servers = self.serve(2, 1.2, members=address)
        self.wait_for(servers, self.names)
        self.etcds[0].kill()
        self.epochs(servers)
        self.wait_for(servers, self.names)
        for etcd in self.etcds[1:]:
            etcd.kill()
        wait_until("the trouble is said", lambda: all(self.cluster(server)["trouble"] for server in servers))
        self.assert_settled(servers)
        self.wait_for(servers, self.names)
        wait_until("the log says so",
                   lambda: "the list of members may not be up to date" in servers[0].log())
        for loses in (False, True):
            for etcd in self.etcds:
                etcd.kill()
                if loses:
                    shutil.rmtree(etcd.folder)
                etcd.start()
            wait_until("the trouble is over", lambda: not any(self.cluster(server)["trouble"]
                                                              for server in servers))
            self.wait_for(servers, self.names)
        wait_until("the log says so", lambda: "up to date again" in servers[0].log())

    def test_entries_that_are_none(self):
        address = self.begin_etcd(1)
        for key, value in (("no-port", '{"bytes":"5"}'), ("a:1", "{"), ("b:1", '{"bytes":5}'), ("", "x"),
                           ("c:1", '{"bytes":"99999999999999999999"}'), ("d:1/e:1", '{"bytes":"5"}')):
            self.etcds[0].put("tureen/test/" + key, value)
        self.etcds[0].put("tureen/test2/f:1", '{"bytes":"5"}')
        servers = self.serve(2, 1.2, members=address)
        self.wait_for(servers, self.names)
        self.assertIn("6 entries at etcd are no members", self.cluster(servers[0])["trouble"])
        self.epochs(servers)

    def test_a_server_starts_without_etcd(self):
        port = free_port()
        servers = self.serve(1, 1.2, members="etcd://127.0.0.1:%d/t" % port)
        self.assertIn("etcd at http://127.0.0.1:%d does not" % port, self.cluster(servers[0])["trouble"])
        self.epochs(servers)
        self.assert_settled(servers)


if __name__ == "__main__":
    unittest.main()
