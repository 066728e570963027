"""A TCP proxy that holds each byte back for a while: a long way, where the kernel has no netem.

    python3 delay_proxy.py LISTEN_PORT HOST PORT MILLISECONDS

Each direction of each connection keeps its order and waits so long, whatever its rate; at most QUEUE_BYTES
are on their way, as on a line of so many bytes.  It listens on all addresses, until it is killed.
"""
import socket
import sys
import threading
import time
from collections import deque

READ_BYTES, QUEUE_BYTES = 1 << 16, 1 << 26


class Line:
    """One direction of a connection: a thread that reads, and one that writes what is due."""

    def __init__(self, source, target, seconds):
        self._source, self._target, self._seconds = source, target, seconds
        self._waiting, self._bytes, self._changed = deque(), 0, threading.Condition()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def _read(self):
        piece = b"first"
        while piece:
            try:
                piece = self._source.recv(READ_BYTES)
            except OSError:
                piece = b""
            with self._changed:
                self._changed.wait_for(lambda: self._bytes < QUEUE_BYTES)
                self._waiting.append((time.monotonic() + self._seconds, piece))
                self._bytes += len(piece)
                self._changed.notify_all()

    def _write(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                due, piece = self._waiting.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not piece:
                    self._target.shutdown(socket.SHUT_WR)
                    return
                self._target.sendall(piece)
            except OSError:
                #  The other side is gone: its end reaches the source as this line's would.
                self._source.close()
                return
            with self._changed:
                self._bytes -= len(piece)
                self._changed.notify_all()


def main():
    port, host, there, delay = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]) / 1000
    with socket.create_server(("", port)) as listener:
        print("listening", flush=True)
        while True:
            client, _ = listener.accept()
            try:
                server = socket.create_connection((host, there))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Line(client, server, delay)
            Line(server, client, delay)


if __name__ == "__main__":
    main()
