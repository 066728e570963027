"""What gives temporary keys, for tests: STS, a container's service and an instance's (IMDSv2), on one port.

    with KeyServices(store, life=6) as services:            # keys of `store` (object_store) that last 6 s
        environment = services.web_identity(folder)     # or .container(..), .instance(), .program(..)
        services.answer = (503, b"busy")                    # from now on; None: keys again
        services.asked                                      # one word a question: "sts", "container", ..

Each question is checked as AWS's services check it, and a wrong one gets their error.
"""
import contextlib
import http.server
import json
import os
import secrets
import sys
import time
import urllib.parse

from object_store import LocalService

ROLE, SESSION = "arn:aws:iam::123456789012:role/reader of packs", "node-1"
IDENTITY = "ey.J0+/=&x.secret-identity"
AUTHORIZATION = "Bearer secret-authorization+/="
INSTANCE_ROLE = "train-role@x"
PROGRAM = """
import json, urllib.request
question = urllib.request.Request("{url}/v1/credentials?id=1", headers={{"Authorization": "{authorization}"}})
keys = json.load(urllib.request.urlopen(question))
print(json.dumps({{"Version": 1, "AccessKeyId": keys["AccessKeyId"], "Expiration": keys["Expiration"],
                  "SecretAccessKey": keys["SecretAccessKey"], "SessionToken": keys["Token"]}}))
"""


def moment(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class KeyServices(LocalService):
    def __init__(self, store, life=6):
        #  The store takes keys that long after the end that is told.
        self.store, self.life, self.grace = store, life, 0
        self.answer, self.held, self.asked, self.given = None, None, [], []
        self.instance_token = secrets.token_urlsafe(40) + "=="
        self.identity, self.authorization = IDENTITY, AUTHORIZATION
        super().__init__(_Handler)

    def give(self):
        """New keys, which the store takes until they end."""
        key = self.store.issue(self.life, self.grace)
        self.given.append(key)
        return key

    #   ---- environments in which these are found

    def _base(self):
        found = {name: value for name, value in self.store.environment().items()
                 if name not in ("AWS_NO_SIGN_REQUEST", "AWS_EC2_METADATA_DISABLED")}
        found["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1"
        return found

    def web_identity(self, folder):
        path = os.path.join(folder, "identity")
        with open(path, "w") as file:
            file.write(self.identity + "\n")
        return dict(self._base(), AWS_ENDPOINT_URL_STS=self.url, AWS_WEB_IDENTITY_TOKEN_FILE=path,
                    AWS_ROLE_ARN=ROLE, AWS_ROLE_SESSION_NAME=SESSION)

    def container(self, folder=None):
        found = dict(self._base(), AWS_CONTAINER_CREDENTIALS_FULL_URI=self.url + "/v1/credentials?id=1")
        if not folder:
            return dict(found, AWS_CONTAINER_AUTHORIZATION_TOKEN=self.authorization)
        path = os.path.join(folder, "authorization")
        with open(path, "w") as file:
            file.write(self.authorization)
        return dict(found, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=path)

    def instance(self):
        return dict(self._base(), AWS_EC2_METADATA_SERVICE_ENDPOINT=self.url)

    def program(self, folder, command=None):
        """A profile with a program, which asks as a container does."""
        script, config = os.path.join(folder, "keys.py"), os.path.join(folder, "config")
        with open(script, "w") as file:
            file.write(PROGRAM.format(url=self.url, authorization=self.authorization))
        with open(config, "w") as file:
            file.write("[profile team]\ncredential_process = %s\n"
                       % (command or "%s -B '%s'" % (sys.executable, script)))
        return dict(self._base(), AWS_CONFIG_FILE=config, AWS_PROFILE="team")

    def secrets(self):
        """All that may appear nowhere."""
        return [key.secret for key in self.given] + [key.token for key in self.given] \
            + [self.identity, self.authorization, self.instance_token]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def _send(self, status, body, kind="text/plain"):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(body)

    def _begin(self, word):
        """Whether the question is to be answered."""
        services = self.server.service
        services.asked.append(word)
        if services.held:
            services.held.wait()
        if services.answer:
            self._send(*services.answer)
        return not services.answer

    def _send_json(self):
        key = self.server.service.give()
        self._send(200, json.dumps({
            "Code": "Success", "LastUpdated": moment(time.time()), "Type": "AWS-HMAC",
            "AccessKeyId": key.name, "SecretAccessKey": key.secret, "Token": key.token,
            "Expiration": moment(key.ends)}), "application/json")

    #   ---- STS

    def do_POST(self):
        services = self.server.service
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(),
                                     strict_parsing=True)
        if not self._begin("sts"):
            return
        expected = {"Action": ["AssumeRoleWithWebIdentity"], "Version": ["2011-06-15"], "RoleArn": [ROLE],
                    "RoleSessionName": [SESSION], "WebIdentityToken": [services.identity]}
        if self.path != "/" or form != expected \
                or self.headers["Content-Type"] != "application/x-www-form-urlencoded" \
                or "Authorization" in self.headers:
            self._send(400, "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>"
                       "<Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>no %s</Message></Error>"
                       "<RequestId>1</RequestId></ErrorResponse>" % services.identity.replace("&", "&amp;"),
                       "text/xml")
            return
        key = services.give()
        self._send(200, "<AssumeRoleWithWebIdentityResponse "
                   "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>"
                   "<AssumedRoleUser><Arn>arn</Arn><AssumedRoleId>id</AssumedRoleId></AssumedRoleUser>"
                   "<Credentials><SessionToken>%s</SessionToken><SecretAccessKey>%s</SecretAccessKey>"
                   "<Expiration>%s</Expiration><AccessKeyId>%s</AccessKeyId></Credentials>"
                   "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
                   % (key.token, key.secret, moment(key.ends), key.name), "text/xml")

    #   ---- containers and instances

    def do_PUT(self):
        if self._begin("token"):
            good = self.path == "/latest/api/token" \
                and self.headers.get("x-aws-ec2-metadata-token-ttl-seconds") == "21600"
            self._send(200 if good else 400, self.server.service.instance_token if good else "Bad Request")

    def do_GET(self):
        services = self.server.service
        roles = "/latest/meta-data/iam/security-credentials/"
        if self.path.startswith(roles):
            word = "keys" if self.path != roles else "role"
            if not self._begin(word):
                return
            if self.headers.get("x-aws-ec2-metadata-token") != services.instance_token:
                self._send(401, "Unauthorized")
            elif self.path == roles:
                self._send(200, INSTANCE_ROLE)
            elif self.path == roles + INSTANCE_ROLE:
                self._send_json()
            else:
                self._send(404, "Not Found")
        elif self._begin("container"):
            if self.path != "/v1/credentials?id=1":
                self._send(404, json.dumps({"code": "NotFound", "message": "no"}))
            elif self.headers.get("Authorization") != services.authorization:
                self._send(403, json.dumps({"code": "AccessDenied", "message": "no"}))
            else:
                self._send_json()
