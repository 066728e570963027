"""An object store for tests and benches: S3's GET with ranges, its PUT and its lists, versions and signatures
over a folder, with faults, delays and a limit of its link on request.

    with ObjectStore(folder, keys={"KEY": "secret"}) as store:      # objects are BUCKET/NAME below the folder
        store.faults.append(Fault("status", status=503, name="volume", times=3))
        environment = store.environment("KEY")                      # for `tureen serve`
        ...
        store.requests                                              # what was asked for
        key = store.issue(6)                                        # temporary keys that end in 6 s

Signatures (SigV4) are worked out from their description, by nothing that the server under test has.
"""
import contextlib
import datetime
import email.utils
import hashlib
import hmac
import http.server
import io
import os
import re
import secrets
import socket
import struct
import sys
import threading
import time
import urllib.parse
import xml.sax.saxutils

PART = 64 * 1024
CLOCK_SKEW_S = 900


class Fault:
    """kind: `status` answers with it; `reset` and `short` end the connection in the body, at once or in
    order; `slow` sends a byte a second.  These three begin behind `after` bytes of the body, or, below 0, so
    many before its end.  `wrong` changes a byte; `hang` does not answer; `endless` answers with the status
    and a body of 8 KB a second that does not end.  Of a PUT, `reset` and `short` end it while the body comes,
    `slow` takes the body and does not confirm it, and `lossy` confirms an object of which it keeps half.  The
    fault meets requests of this method, or of all, for objects with `name` in their names, `times` of them;
    None: all."""

    def __init__(self, kind, status=503, code="SlowDown", name="", times=None, after=PART, method=None):
        self.kind, self.status, self.code, self.name, self.after = kind, status, code, name, after
        self.times, self.method, self.met = times, method, 0


class Request:
    def __init__(self, name, first, last, status, method="GET"):
        self.name, self.first, self.last, self.status, self.method = name, first, last, status, method
        self.began, self.sent = time.monotonic(), 0


class Key:
    """Temporary keys."""

    def __init__(self, name, secret, token, ends, grace):
        self.name, self.secret, self.token, self.ends, self.grace = name, secret, token, ends, grace


class Link:
    """What all connections share: so many bytes a second.  A sleep that lasts too long is made up for, up to
    BURST seconds."""
    BURST = 0.01

    def __init__(self, rate):
        self._rate, self._lock, self._free_at = rate, threading.Lock(), 0.0

    def pass_through(self, size):
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() - self.BURST) + size / self._rate
            wait = self._free_at - time.monotonic()
        if wait > 0:
            time.sleep(wait)


class _Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, request, address):
        """A client that goes or is killed is no fault of the store's."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, address)


class LocalService:
    """An HTTP server on a free port of this machine, in threads, for as long as `with` lasts."""

    def __init__(self, handler, host="127.0.0.1"):
        self._server = _Listener((host, 0), handler)
        self._server.service = self
        self.url = "http://%s:%d" % self._server.server_address
        self._thread = threading.Thread(target=self._server.serve_forever, args=(.05,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ObjectStore(LocalService):
    def __init__(self, folder, keys=None, token=None, latency=0.0, rate=None, host="127.0.0.1"):
        self.folder, self.keys, self.token, self.latency = folder, keys, token, latency
        self.link = Link(rate) if rate else None
        self.page = 1000                    # names in a page of a list
        #  Lists without an end (`circle`: the same pages again; `itself`: the address is a folder below
        #  itself), and sizes that they tell instead, by name.
        self.list_fault, self.listed_sizes = None, {}
        self.listed_also = {}               # keys that no file can have: their file
        self.gives_versions = True
        self.heeds_versions = True          # If-Match counts; some stores and proxies do not know it
        self.has_weak_versions = False      # W/"..", which If-Match never meets
        self.are_weakened_on_the_way = False    # W/".." in answers: If-Match meets the strong one
        self.listed_version = '"%s"'        # how a list writes a version
        self.faults, self.requests, self._lock = [], [], threading.Lock()
        self.issued, self.used = {}, set()
        self.kept = 0                                   # objects that were written
        self._ending = threading.Event()
        super().__init__(_Handler, host)

    def __exit__(self, *exception):
        self._ending.set()
        super().__exit__(*exception)

    def environment(self, key=None):
        """How a client finds this store, and no keys of the caller's own."""
        nowhere = os.path.join(self.folder, "no-such-file")
        found = {"AWS_ENDPOINT_URL_S3": self.url, "AWS_SHARED_CREDENTIALS_FILE": nowhere,
                 "AWS_CONFIG_FILE": nowhere, "AWS_EC2_METADATA_DISABLED": "true"}
        if key:
            found.update({"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": self.keys[key]})
            if self.token:
                found["AWS_SESSION_TOKEN"] = self.token
        else:
            found["AWS_NO_SIGN_REQUEST"] = "YES"
        return found

    def issue(self, seconds, grace=0):
        """Keys that end after that many whole seconds, which the store takes for another `grace` seconds.
        The names of those that signed good requests are in `used`."""
        ends = int(time.time()) + seconds
        key = Key("ASIA" + secrets.token_hex(8).upper(), secrets.token_urlsafe(30), "T" * 600
                  + secrets.token_urlsafe(300) + "+/=", ends, grace)
        self.issued[key.name] = key
        return key

    def take_fault(self, name, method="GET"):
        with self._lock:
            for fault in self.faults:
                if fault.name in name and fault.method in (None, method) \
                        and (fault.times is None or fault.met < fault.times):
                    fault.met += 1
                    return fault
        return None

    def add(self, request):
        with self._lock:
            self.requests.append(request)

    def keep(self, name, body):
        """The object is there at once, and whole."""
        path = os.path.join(self.folder, name)
        with self._lock:
            self.kept += 1
            coming = os.path.join(self.folder, ".coming-%d" % self.kept)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(coming, "wb") as file:
            file.write(body)
        os.replace(coming, path)

    def written(self, name=""):
        """Names of the objects that were written, in that order."""
        with self._lock:
            return [request.name for request in self.requests
                    if request.method == "PUT" and request.status == 200 and name in request.name]

    def sent(self, name=""):
        """Bytes of objects with that in their names."""
        with self._lock:
            return sum(request.sent for request in self.requests if name in request.name)

    def wait(self, seconds):
        self._ending.wait(seconds)


def sign(method, target, headers, region, secret, payload, moment):
    """The signature of a request with these headers; target is the path as it is sent, with its query."""
    path, _, query = target.partition("?")
    names = sorted(name.lower() for name in headers)
    values = {name.lower(): value.strip() for name, value in headers.items()}
    lines = "".join("%s:%s\n" % (name, values[name]) for name in names)
    #  A client may send `delimiter=/`; what is signed is always `delimiter=%2F`.
    pairs = [part.partition("=") for part in query.split("&")] if query else []
    signed = sorted("=".join(urllib.parse.quote(urllib.parse.unquote(text), safe="-_.~")
                             for text in (key, value)) for key, _, value in pairs)
    wanted = "\n".join([method, urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"),
                        "&".join(signed), lines, ";".join(names), payload])
    scope = "%s/%s/s3/aws4_request" % (moment[:8], region)
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(wanted.encode()).hexdigest()])
    hidden = ("AWS4" + secret).encode()
    for part in (moment[:8], region, "s3", "aws4_request"):
        hidden = hmac.new(hidden, part.encode(), hashlib.sha256).digest()
    return hmac.new(hidden, text.encode(), hashlib.sha256).hexdigest()


class _Refused(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #  Heads and bodies are separate writes.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def parse_request(self):
        """A proxy is asked for whole addresses; whatever the host, it is this store."""
        is_good = super().parse_request()
        if is_good:
            self.path = re.sub(r"^https?://[^/]*", "", self.path)
        return is_good

    def do_GET(self):
        store = self.server.service
        path, _, query = self.path.partition("?")
        name = urllib.parse.unquote(path).lstrip("/")
        #  S3 lists a bucket that is asked for without a query, too: s3fs looks so whether it is there.
        is_list = bool(query) or (store.keys is not None and name != "" and "/" not in name.rstrip("/"))
        name += "?list" if is_list else ""
        if store.latency:
            store.wait(store.latency)
        fault = store.take_fault(name)
        try:
            if fault and fault.kind == "hang":
                store.wait(3600)
            if fault and fault.kind == "status":
                raise _Refused(fault.status, fault.code)
            if fault and fault.kind == "endless":
                return self._send_endless(store, fault)
            self._check_signature(store)
            if is_list:
                self._send_list(store, name, urllib.parse.parse_qs(query, keep_blank_values=True), fault)
            else:
                self._send_object(store, name, fault)
        except _Refused as refused:
            store.add(Request(name, None, None, refused.status))
            self._send_error(refused)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_HEAD = do_GET                        # without the body; other clients ask so

    def handle_expect_100(self):
        """An error is told before the body is sent."""
        fault = self._put_fault()
        if not fault or fault.kind != "status":
            return super().handle_expect_100()
        self._refuse_put(_Refused(fault.status, fault.code))
        return False

    def _put_fault(self):
        """Of this request, drawn once."""
        if getattr(self, "_drawn_for", None) != (self.path, id(self.headers)):
            self._drawn_for = (self.path, id(self.headers))
            self._drawn = self.server.service.take_fault(urllib.parse.unquote(self.path).lstrip("/"), "PUT")
        return self._drawn

    def _refuse_put(self, refused):
        name = urllib.parse.unquote(self.path).lstrip("/")
        self.server.service.add(Request(name, None, None, refused.status, "PUT"))
        self._send_error(refused)

    def do_PUT(self):
        store = self.server.service
        name = urllib.parse.unquote(self.path).lstrip("/")
        if store.latency:
            store.wait(store.latency)
        fault = self._put_fault()
        try:
            body = self._receive(store, fault)
            if body is None:
                return
            if fault and fault.kind == "status":
                raise _Refused(fault.status, fault.code)
            self._check_signature(store)
            if not os.path.isdir(os.path.join(store.folder, name.split("/")[0])):
                raise _Refused(404, "NoSuchBucket")
            given = self.headers.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")
            if given not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
                raise _Refused(400, "XAmzContentSHA256Mismatch")
            self._keep(store, name, fault, body)
        except _Refused as refused:
            self._refuse_put(refused)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _receive(self, store, fault):
        """The body; None: the connection ended on the way."""
        if not self.headers.get("Content-Length", "").isdigit():
            raise _Refused(411, "MissingContentLength")
        size, body = int(self.headers["Content-Length"]), bytearray()
        while len(body) < size:
            if fault and fault.kind in ("reset", "short") and len(body) >= fault.after:
                self._break(fault)
                return None
            part = self.rfile.read(min(size - len(body), PART))
            if not part:
                self.close_connection = True
                return None
            if store.link:
                store.link.pass_through(len(part))
            body += part
        if fault and fault.kind in ("hang", "slow"):
            store.wait(3600)
            self.close_connection = True
            return None
        if fault and fault.kind == "wrong":
            body[-1] ^= 0x40
        return body

    def _keep(self, store, name, fault, body):
        store.keep(name, body[:len(body) // 2] if fault and fault.kind == "lossy" else body)
        request = Request(name, 0, len(body) - 1, 200, "PUT")
        store.add(request)
        status = os.stat(os.path.join(store.folder, name))
        self.send_response(200)
        self.send_header("ETag", "\"%x-%x\"" % (status.st_mtime_ns, status.st_size))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_error(self, refused):
        body = ("<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>no</Message></Error>"
                % refused.code).encode()
        self.send_response(refused.status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_endless(self, store, fault):
        self.close_connection = True
        self.send_response(fault.status)
        self.end_headers()
        while not store._ending.wait(.125):
            self.wfile.write(b"x" * 1024)

    def _send_list(self, store, name, query, fault):
        """A page of a list; its token is the last name of the page before."""
        bucket = os.path.join(store.folder, name.rstrip("/").partition("?")[0].strip("/"))
        if not os.path.isdir(bucket):
            raise _Refused(404, "NoSuchBucket")
        asked = {key: values[0] for key, values in query.items()}
        prefix, after = asked.get("prefix", ""), asked.get("continuation-token", "")
        found = {}                          # name: path, or None for what is common
        paths = [os.path.join(folder, file) for folder, _, files in os.walk(bucket) for file in files]
        keys = {os.path.relpath(path, bucket): path for path in paths}
        for key, path in {**keys, **store.listed_also}.items():
            if key.startswith(prefix):
                rest, slash, _ = key[len(prefix):].partition("/")
                is_common = slash and asked.get("delimiter") == "/"
                found[prefix + rest + "/" if is_common else key] = None if is_common else path
        names = sorted((key for key in found if key > after), key=os.fsencode)
        page = names[:min(int(asked.get("max-keys", 1000)), store.page)]
        lines = ["<EncodingType>url</EncodingType>" if asked.get("encoding-type") == "url" else ""]
        for key in page:
            shown = urllib.parse.quote_plus(key, safe="/")
            if found[key] is None:
                lines.append("<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>" % shown)
                continue
            status = os.stat(found[key])
            lines.append("<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"
                         "%s</ETag><Size>%d</Size></Contents>"
                         % (shown, xml.sax.saxutils.escape(
                             store.listed_version % ("%x-%x" % (status.st_mtime_ns, status.st_size)),
                             {'"': "&quot;"}),
                            store.listed_sizes.get(os.path.basename(key), status.st_size)))
        if store.list_fault == "itself":
            lines.append("<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>"
                         % urllib.parse.quote_plus(prefix, safe="/"))
        token = page[-1] if len(page) < len(names) else None
        if store.list_fault == "circle":        # of three pages, from tokens before all names
            token = {"!": "#", "#": "$"}.get(after, "!")
        if token is not None:
            lines.append("<IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>"
                         % xml.sax.saxutils.escape(token))
        body = ("<?xml version=\"1.0\"?>\n"
                "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                "<Name>bucket</Name><Prefix>%s</Prefix>%s</ListBucketResult>"
                % (xml.sax.saxutils.escape(prefix), "".join(lines))).encode()
        request = Request(name, 0, len(body) - 1, 200)
        store.add(request)
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self._send_body(store, io.BytesIO(body), request, fault)

    def _send_object(self, store, name, fault):
        path = os.path.join(store.folder, name)
        if not os.path.isfile(path):
            raise _Refused(404, "NoSuchKey")
        status = os.stat(path)
        version = "\"%x-%x\"" % (status.st_mtime_ns, status.st_size)
        condition = self.headers.get("If-Match")
        if store.heeds_versions and condition and (store.has_weak_versions or condition != version):
            raise _Refused(412, "PreconditionFailed")
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = (int(asked[1]), min(int(asked[2] or status.st_size), status.st_size - 1)) if asked \
            else (0, status.st_size - 1)
        if asked and first >= status.st_size:
            raise _Refused(416, "InvalidRange")
        request = Request(name, first, last, 206 if asked else 200)
        store.add(request)
        self.send_response(request.status)
        if store.gives_versions:
            self.send_header("ETag", "W/" * (store.has_weak_versions or store.are_weakened_on_the_way)
                             + version)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Last-Modified", email.utils.formatdate(status.st_mtime, usegmt=True))
        if asked:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (first, last, status.st_size))
        self.end_headers()
        if self.command == "HEAD":
            return
        with open(path, "rb") as file:
            file.seek(first)
            if fault:
                self._send_body(store, file, request, fault)
            else:
                self._send_file(store, file, request)

    def _send_file(self, store, file, request):
        """The kernel copies: where rates are measured, the store itself takes little of the processor."""
        self.wfile.flush()
        at = request.first
        while at <= request.last:
            size = min(request.last + 1 - at, PART)
            if store.link:
                store.link.pass_through(size)
            size = os.sendfile(self.connection.fileno(), file.fileno(), at, size)
            if size == 0:
                raise ConnectionError("the file has become shorter")
            request.sent += size
            at += size

    def _send_body(self, store, file, request, fault):
        left = request.last - request.first + 1
        while left > 0:
            part = file.read(min(left, PART))
            if fault and fault.kind in ("reset", "short", "slow"):
                good = max(fault.after - request.sent if fault.after >= 0 else left + fault.after, 0)
                if len(part) > good:
                    self.wfile.write(part[:good])
                    return self._break(fault, part[good:])
            if fault and fault.kind == "wrong" and request.sent == 0:
                part = part[:-1] + bytes([part[-1] ^ 0x40])
            if store.link:
                store.link.pass_through(len(part))
            self.wfile.write(part)
            request.sent += len(part)
            left -= len(part)
        return None

    def _break(self, fault, rest=b""):
        self.close_connection = True
        if fault.kind == "slow":
            with contextlib.suppress(OSError):
                for byte in rest:
                    if self.server.service._ending.wait(1):
                        break
                    self.wfile.write(bytes([byte]))
        if fault.kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    #   ---- signatures

    def _check_signature(self, store):
        if store.keys is None:
            return
        given = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
                             r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
                             self.headers.get("Authorization", ""))
        if not given:
            raise _Refused(403, "AccessDenied")
        key, day, region, names, signature = given.groups()
        temporary = store.issued.get(key)
        if key not in store.keys and not temporary:
            raise _Refused(403, "InvalidAccessKeyId")
        if temporary and self.headers.get("x-amz-security-token") != temporary.token:
            raise _Refused(400, "InvalidToken")
        if temporary and time.time() >= temporary.ends + temporary.grace:
            raise _Refused(400, "ExpiredToken")
        if not temporary and store.token and self.headers.get("x-amz-security-token") != store.token:
            raise _Refused(403, "InvalidToken")
        moment = self.headers["x-amz-date"]
        then = datetime.datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs(time.time() - then.timestamp()) > CLOCK_SKEW_S:
            raise _Refused(403, "RequestTimeTooSkewed")
        if not {"host", "x-amz-date"} <= set(names.split(";")):
            raise _Refused(403, "AccessDenied")
        signed = {name: self.headers[name] for name in names.split(";")}
        secret = temporary.secret if temporary else store.keys[key]
        if sign(self.command, self.path, signed, region, secret, self.headers["x-amz-content-sha256"],
                moment) != signature:
            raise _Refused(403, "SignatureDoesNotMatch")
        store.used.add(key)
