"""What peers that are let in nowhere cost one that is: handshakes on a tcp endpoint with keys.

    TUREEN_BIN=build/release/bin python3 bench/speed/handshakes.py [--seconds 5] [--rounds 3] [--attackers 1]
    [--held 2000]

A client takes batches through the socket (encrypted, the worst case) from a cache that holds all its data:
alone; beside peers that begin handshakes as fast as they can, by replaying a HELLO that was true once (which
costs them nothing, and the server a few operations on the curve); and beside peers that connect and say
nothing.  Rounds of the three follow each other; the table has their medians.  Attackers run with nice 19 on
the same machine: what they take of its processors the client has not; so the first lines say what a handshake
costs the server, without a client: one that is only begun, and a whole one with a key that is not let in.
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import zmq

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "system"))
import harness

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15) + b"%c" + bytes(31)
HELLO_BYTES = 202                       # a command frame of 200 bytes


def receive(peer, size):
    data = b""
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def record_hello(server_key):
    """What a client that knows the server's key says first."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        context = zmq.Context()
        dealer = context.socket(zmq.DEALER)
        dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
        dealer.curve_serverkey, dealer.linger = server_key, 0
        dealer.connect("tcp://127.0.0.1:%d" % listener.getsockname()[1])
        peer, _ = listener.accept()
        peer.sendall(GREETING % 1)
        hello = receive(peer, 64 + HELLO_BYTES)[64:]
        peer.close()
        dealer.close()
        context.term()
    return hello


def attack(port, hello, seconds):
    """Handshakes one after the other, several under way; how many got an answer."""
    os.nice(19)
    answered, over, peers = 0, time.monotonic() + seconds, []
    while time.monotonic() < over:
        try:
            peer = socket.create_connection(("127.0.0.1", port), 5)
            peer.sendall(GREETING % 0 + hello)
            peers.append(peer)
            if len(peers) > 20:
                oldest = peers.pop(0)
                answered += len(receive(oldest, 64 + 170)) > 0
                oldest.close()
        except OSError:
            pass
    for peer in peers:
        peer.close()
    print(answered)


def process_figures(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return cpu, len(os.listdir("/proc/%d/fd" % pid)), harness.process_number(pid, "VmRSS") / 1024


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="tu-handshakes-", dir="/tmp")
        self.keys = os.path.join(self.folder, "keys")
        self.key = os.path.join(self.folder, "alice")
        data = os.path.join(self.folder, "train")
        harness.make_folder(data, 512)
        for command in (["new", self.key], ["allow", self.keys, self.key, "--tenant", "operator",
                                            "--operator"]):
            assert harness.run("key", *command).returncode == 0
        self.port = harness.free_port()
        self.server = harness.Server({"train": data}, cache="256M", listen="tcp://127.0.0.1:%d" % self.port,
                                     arguments=["--keys", self.keys])

    def read(self):
        """Samples a second of a client for so many seconds; what the server was meanwhile."""
        command = [harness.TUREEN, "read", "--connect", self.server.endpoint, "--key", self.key,
                   "--server-key", os.path.join(self.keys, "server"), "--dataset", "train", "--recipe",
                   "eval", "--batch", "64", "--inline", "--epochs", "0", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, universal_newlines=True)
        time.sleep(self.options.seconds)
        figures = process_figures(self.server.pid)
        process.send_signal(2)
        result = json.loads(process.communicate()[0])
        return result["samples"] / result["seconds"], figures

    def alone(self):
        return self.read() + (0,)

    def beside_hellos(self):
        command = [sys.executable, "-B", os.path.abspath(__file__), "--attack", str(self.port),
                   self.hello.hex(), str(self.options.seconds + 1)]
        attackers = [subprocess.Popen(command, stdout=subprocess.PIPE, universal_newlines=True)
                     for _ in range(self.options.attackers)]
        result = self.read()
        answered = sum(int(attacker.communicate()[0]) for attacker in attackers)
        return result + (answered / (self.options.seconds + 1),)

    def beside_silence(self):
        """Connections that say nothing; one that is closed by the server connects again."""
        over, held = threading.Event(), []

        def hold():
            while not over.is_set():
                if len(held) >= self.options.held:
                    held.pop(0).close()
                try:
                    held.append(socket.create_connection(("127.0.0.1", self.port), 5))
                except OSError:
                    pass
                if len(held) >= self.options.held:
                    time.sleep(0.002)
        thread = threading.Thread(target=hold)
        thread.start()
        time.sleep(2)
        result = self.read()
        over.set()
        thread.join()
        count = len(held)
        for peer in held:
            peer.close()
        return result + (count,)

    #   ---- what one costs

    def begin_only(self):
        command = [sys.executable, "-B", os.path.abspath(__file__), "--attack", str(self.port),
                   self.hello.hex(), str(self.options.seconds)]
        return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    def whole(self):
        """With a key that is not let in; those that heard of it."""
        context, refused, over = zmq.Context(), 0, time.monotonic() + self.options.seconds
        pair = zmq.curve_keypair()
        while time.monotonic() < over:
            dealers = []
            for _ in range(20):
                dealer = context.socket(zmq.DEALER)
                (dealer.curve_publickey,
                 dealer.curve_secretkey), dealer.curve_serverkey = pair, self.server_key
                dealer.linger, dealer.reconnect_ivl = 0, -1
                dealers.append((dealer, dealer.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)))
                dealer.connect(self.server.endpoint)
            for dealer, monitor in dealers:
                refused += monitor.poll(5000) > 0
                dealer.disable_monitor()
                monitor.close()
                dealer.close()
        context.term()
        return refused

    def cost(self, name, attack):
        before, _, _ = process_figures(self.server.pid)
        count = attack()
        cpu = process_figures(self.server.pid)[0] - before
        print("a handshake, %s: %.2f ms of the server's CPU (%d of them)"
              % (name, 1000 * cpu / max(count, 1), count), flush=True)

    def run(self):
        kinds = [("alone", self.alone), ("handshakes", self.beside_hellos),
                 ("silent peers", self.beside_silence)]
        found = {name: [] for name, _ in kinds}
        with self.server:
            with open(os.path.join(self.keys, "server")) as file:
                key = [line for line in file if "public-key" in line][0].split('"')[1]
            self.server_key = key.encode()
            self.hello = record_hello(self.server_key)
            self.cost("only begun", self.begin_only)
            self.cost("with a key that is not let in", self.whole)
            self.read()
            for _ in range(self.options.rounds):
                for name, measure in kinds:
                    found[name].append(measure())
        print("%-14s %12s %14s %12s %10s" % ("", "samples/s", "handshakes/s", "descriptors", "RSS, MiB"))
        for name, rounds in found.items():
            middle = [statistics.median(values) for values in zip(*((speed, fds, rss, count)
                                                                    for speed, (_, fds, rss),
                                                                    count in rounds))]
            print("%-14s %12.0f %14s %12.0f %10.1f" % (name, middle[0],
                                                       "%.0f" % middle[3] if name == "handshakes" else "",
                                                       middle[1], middle[2]))

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    if sys.argv[1:2] == ["--attack"]:
        return attack(int(sys.argv[2]), bytes.fromhex(sys.argv[3]), float(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attackers", type=int, default=1)
    parser.add_argument("--held", type=int, default=2000)
    bench = Bench(parser.parse_args())
    try:
        bench.run()
    finally:
        bench.end()


if __name__ == "__main__":
    main()
