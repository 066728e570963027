"""One tenant tries to reach what is another's, a test for each way in: data by name, by id, by list, by a
stolen state; jobs by number, by name, by run, as a rank; rings by their token; status; the words of errors.
And what is said twice: replayed messages and tokens.

Everything is done twice: with two users of this machine on ipc (as root only), and with two keys on tcp.
Clients are puppets: processes of their own, of the right user, that do as they are told.  After each attempt
the victim's epochs are exact, and what the attacker heard is, byte for byte, what it would have heard had
there been no victim."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import zmq

import harness
import plain_client
from harness import SystemTest, wait_until
from plain_client import Batch, Course, Ended, EpochEnd, HEAD, PROGRESS

MINE, THEIRS, STRANGER = 3001, 3002, 3009       # users of this machine, without a name in its user database
GROUP = 65534                                   # any that exists
SILENCE = 1.0                                   # seconds, of which the server needs none
JOIN_KEYS = dict(dataset="train", batch_size=16, epochs=2, pipeline="eval")


#   ---- puppets

class Puppet:
    """A client in a process of its own: calls go as lines of JSON."""

    def __init__(self, endpoint, programs, user=None, curve=None):
        def become():
            os.setgroups([GROUP])
            os.setgid(GROUP)
            os.setuid(user)
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.join(programs, os.path.basename(__file__)), "--puppet",
             json.dumps({"endpoint": endpoint, "curve": curve})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True,
            preexec_fn=become if user else None, cwd="/")

    def __getattr__(self, name):
        def call(*arguments, **keys):
            self.process.stdin.write(json.dumps([name, arguments, keys]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                raise AssertionError("the puppet has died at %s" % name)
            answer = json.loads(answer)
            if "failed" in answer:
                raise AssertionError("%s: %s" % (name, answer["failed"]))
            return answer["value"]
        return call

    def end(self):
        self.process.stdin.close()
        self.process.wait(harness.PATIENCE)
        self.process.stdout.close()


class Strings:
    """What a puppet can do; connection: a number of the caller's choice."""

    def __init__(self, endpoint, curve):
        self.endpoint, self.curve, self.jobs = endpoint, curve and [text.encode() for text in curve], {}

    def job(self, connection):
        if connection not in self.jobs:
            self.jobs[connection] = Course(self.endpoint, curve=self.curve)
        return self.jobs[connection]

    def join(self, connection, keys, frames=(), seconds=30):
        job = self.job(connection)
        try:
            job.ask_join([bytes.fromhex(frame) for frame in frames], **keys)
            joined = job.joined_answer(seconds)
        except plain_client.Refused as refused:
            return {"error": refused.code, "message": refused.message}
        return {"joined": joined, "gathering": job.gathering}

    def start(self, connection):
        self.job(connection).start()

    def inline(self, connection):
        self.job(connection).go_inline()

    def take(self, connection, count=None, seconds=30):
        """So many batches, or all to the end: [epoch, ids] of each; and what ended it."""
        job, batches, ended = self.job(connection), [], None
        while count is None or len(batches) < count:
            event = job.event(seconds)
            if event is None or isinstance(event, Ended):
                ended = list(event) if event else None
                break
            if isinstance(event, EpochEnd):
                if event.last:
                    ended = ["last", ""]
                    break
                continue
            batches.append([event.epoch, list(event.ids)])
            event.fields.clear()
            job.done_with(event)
        return {"batches": batches, "ended": ended}

    def say(self, connection, kind, number=0, body=None, tag=7, seconds=harness.PATIENCE, answer=True):
        """Any message; the answer with its tag, as kind, job and text, or None."""
        job = self.job(connection)
        job.send(kind, number, tag, *([bytes.fromhex(body)] if body is not None else []))
        deadline = time.monotonic() + seconds
        while answer:
            message = job._receive(deadline - time.monotonic())
            if message is None:
                break
            if message.tag == tag:
                return [message.kind, message.job, message.frames[0].decode() if message.frames else ""]
            job.waiting.append(message)
        return None

    def status(self, connection=0):
        return self.job(connection).status()

    def ring(self, path, token):
        """Whether the token opens it for this user: "ring", "closed", or why not even that."""
        import array
        import socket
        with socket.socket(socket.AF_UNIX) as ring_socket:
            ring_socket.settimeout(10)
            try:
                ring_socket.connect(path)
                ring_socket.sendall(token.encode())
                data, control, _, _ = ring_socket.recvmsg(1, socket.CMSG_SPACE(4))
            except (BrokenPipeError, ConnectionResetError):
                return "closed"
            except OSError as error:
                return str(error)
            for _, _, descriptor in control:
                os.close(array.array("i", descriptor[:4])[0])
            return "ring" if control else "closed"

    def leave(self, connection):
        return list(self.job(connection).leave())

    def close(self, connection):
        self.jobs.pop(connection).close()


def puppet_main(request):
    strings = Strings(**json.loads(request))
    for line in sys.stdin:
        name, arguments, keys = json.loads(line)
        try:
            answer = {"value": getattr(strings, name)(*arguments, **keys)}
        except Exception as error:              # told to the process that pulls the strings
            answer = {"failed": "%s: %s" % (type(error).__name__, error)}
        print(json.dumps(answer), flush=True)
    for job in strings.jobs.values():
        job.socket.setsockopt(zmq.LINGER, 0)
        job.close()


#   ---- the two transports

class Crossing(SystemTest):
    SAMPLES = 200

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = cls.copy_for_other_users()
        cls.secret = os.path.join(cls.root, "secret")
        harness.make_folder(cls.secret, 120, seed=harness.SEED + 1)
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-cross-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        os.chmod(self.folder, 0o711)
        self.puppets = []

    def tenants(self, mine, theirs):
        return ["--tenant", "mine=%s" % mine, "--tenant", "theirs=%s" % theirs, "--tenant-datasets",
                "mine=train", "--tenant-datasets", "theirs=train,secret"]

    def puppet(self, server, user):
        puppet = Puppet(server.endpoint, self.programs, **self.identity(user))
        self.puppets.append(puppet)
        self.addCleanup(puppet.end)
        return puppet

    def serve(self, **options):
        arguments = self.arguments() + options.pop("arguments", [])
        return harness.Server({"train": self.data, "secret": self.secret}, listen=self.listen(),
                              arguments=arguments,
                              **options)

    def victim(self, server, **keys):
        """A job of the other tenant that has had a few batches: its puppet, and what JOINED said."""
        victim = self.puppet(server, THEIRS)
        joined = victim.join(1, dict(JOIN_KEYS, dataset="secret", **keys))["joined"]
        victim.start(1)
        victim.had = victim.take(1, 3)["batches"]
        return victim, joined

    def assert_whole(self, victim, epochs=2, samples=120):
        """The rest of the victim's job comes, and all of it was exact."""
        rest = victim.take(1)
        self.assertEqual(rest["ended"], ["last", ""])
        got = {}
        for epoch, ids in victim.had + rest["batches"]:
            got.setdefault(epoch, []).extend(ids)
        self.assertEqual({epoch: sorted(ids) for epoch, ids in got.items()},
                         {epoch: list(range(samples)) for epoch in range(epochs)})
        self.assertEqual(victim.leave(1)[0], "left")


class Ways:
    """Each a way in."""

    def test_data_by_name(self):
        with self.serve() as server:
            victim, _ = self.victim(server)
            attacker = self.puppet(server, MINE)
            heard = [attacker.join(1, dict(JOIN_KEYS, dataset=name)) for name in ("secret", "sacret")]
            self.assertEqual(heard[0], json.loads(json.dumps(heard[1]).replace("sacret", "secret")))
            self.assertEqual(heard[0]["error"], "unknown_dataset")
            self.assertTrue(heard[0]["message"].endswith("has: train"), heard[0])
            self.assertIn("joined", attacker.join(1, JOIN_KEYS))
            self.assert_whole(victim)

    def test_data_by_id_subset_and_list(self):
        #  Ids are of the data set that is named; what the other one has is not behind them.
        with self.serve() as server:
            victim, _ = self.victim(server)
            attacker = self.puppet(server, MINE)
            beyond = 2**32 - 1
            for name, frame in (("subset", plain_client.ids_ranges((0, self.SAMPLES + 1))),
                                ("subset", plain_client.ids_words([self.SAMPLES + 60], self.SAMPLES + 64)),
                                ("list", plain_client.ids_list([0, self.SAMPLES])),
                                ("list", plain_client.ids_list([beyond]))):
                keys = dict(JOIN_KEYS, frames=[name], **({"order": "list"} if name == "list" else {}))
                answer = attacker.join(1, keys, [frame.hex()])
                self.assertIn(answer["error"], ("bad_request", "malformed"), answer)
                self.assertIn("%d samples" % self.SAMPLES, answer["message"])
                self.assertNotIn("120", answer["message"])
            joined = attacker.join(1, JOIN_KEYS)["joined"]
            attacker.start(1)
            attacker.take(1, 1)
            answer = attacker.say(1, plain_client.EXPLAIN, int(joined["job"]),
                                  json.dumps({"id": str(self.SAMPLES)}).encode().hex())
            self.assertEqual((answer[0], json.loads(answer[2])["error"]),
                             (plain_client.ERROR, "unknown_sample"))
            self.assert_whole(victim)

    def test_a_stolen_state(self):
        #  Fingerprint, digest and run of another tenant's job: no data, no fencing; on data of both a job of
        #  one's own.
        with self.serve() as server:
            victim, joined = self.victim(server, instance="a" * 32)
            shared, both = self.puppet(server, THEIRS), dict(JOIN_KEYS, instance="b" * 32)
            theirs = shared.join(1, both)["joined"]
            shared.start(1)
            shared.had = shared.take(1, 2)["batches"]
            attacker = self.puppet(server, MINE)

            def stolen(of, dataset, **keys):
                taken = [plain_client.ids_words([0, 1], int(of["dataset_samples"])).hex()]
                resume = {"fingerprint": of["fingerprint"], "data": of["data"], "epoch": "0", "batches": "1"}
                return attacker.join(1, dict(JOIN_KEYS, dataset=dataset, run=of["run"], resume=resume,
                                             frames=["taken"], **keys), taken)
            answer = stolen(joined, "secret", instance="a" * 32)
            self.assertEqual(answer["error"], "unknown_dataset", answer)
            answer = stolen(joined, "train", instance="a" * 32)
            self.assertEqual(answer["error"], "bad_state", answer)
            answer = stolen(theirs, "train", instance="b" * 32)["joined"]
            self.assertFalse(answer["forked"])          # which it would be if another one had the run
            self.assertNotEqual(answer["job"], theirs["job"])
            self.assert_whole(shared, samples=self.SAMPLES)
            self.assert_whole(victim)

    def test_a_job_name(self):
        with self.serve() as server:
            victim, joined = self.victim(server, job="night", run="c" * 32)
            attacker = self.puppet(server, MINE)
            answer = attacker.join(1, dict(JOIN_KEYS, job="night", run="d" * 32))
            self.assertIn("joined", answer)
            self.assertNotEqual(answer["joined"]["job"], joined["job"])
            attacker.leave(1)
            self.assertIn("joined", attacker.join(1, dict(JOIN_KEYS, job="night", run="c" * 32)))
            self.assert_whole(victim)

    def test_a_rank_of_anothers_job(self):
        with self.serve() as server:
            victim, first = self.victim(server)
            ranks = dict(JOIN_KEYS, job="pair", world_size=2, gather=30, transport="inline")
            one, other, attacker = (self.puppet(server, user) for user in (THEIRS, THEIRS, MINE))
            one.say(2, plain_client.STATUS, 0, b"{}".hex())
            self.assertIsNone(one.join(1, dict(ranks, rank=0), seconds=1)["joined"])
            #  It waits for a rank; the attacker's is not that one, and waits for its own.
            answer = attacker.join(1, dict(ranks, rank=1, gather=1), seconds=30)
            self.assertEqual(answer["error"], "ranks_missing", answer)
            self.assertIn("missing", answer["message"])
            self.assertIn("joined", other.join(1, dict(ranks, rank=1)))
            #  Now it runs: no other user can be a rank of it.
            answer = attacker.join(2, dict(ranks, rank=0, gather=1), seconds=30)
            self.assertEqual(answer["error"], "ranks_missing", answer)
            self.assert_whole(victim)

    def test_questions_about_anothers_job(self):
        with self.serve() as server:
            victim, joined = self.victim(server)
            attacker = self.puppet(server, MINE)
            number = int(joined["job"])
            own = int(attacker.join(1, JOIN_KEYS)["joined"]["job"])
            for kind, body in ((plain_client.PROGRESS_KIND, PROGRESS.pack(7, 7, 0)),
                               (plain_client.PROGRESS_KIND, PROGRESS.pack(0, 0, 0)),
                               (plain_client.LEAVE, None), (plain_client.INLINE, None),
                               (plain_client.HEARTBEAT, None),
                               (plain_client.EXPLAIN, b'{"id": "0"}')):
                for connection in (1, 2):
                    heard = []
                    for asked in (number, number + 1000):
                        answer = attacker.say(connection, kind, asked,
                                              body.hex() if body is not None else None)
                        self.assertEqual((answer[0], answer[1]), (plain_client.ERROR, asked))
                        heard.append(answer[2].replace(str(asked), "N"))
                    self.assertEqual(heard[0], heard[1])
                    self.assertEqual(json.loads(heard[0])["error"], "unknown_job")
            answer = attacker.say(2, plain_client.STATUS, number, b"{}".hex())
            self.assertEqual(answer[:2], [plain_client.STATUS_REPLY, 0])
            self.assertNotEqual(own, number)
            self.assert_whole(victim)

    def test_status(self):
        with self.serve() as server:
            victim, joined = self.victim(server, job="night", name="unheard-of")
            attacker = self.puppet(server, MINE)
            status = attacker.status()
            text = json.dumps(status)
            for word in ("secret", "night", "unheard-of", "theirs", joined["run"], joined["fingerprint"]):
                self.assertNotIn(word, text)
            self.assertEqual([data["name"] for data in status["datasets"]], ["train"])
            self.assertEqual(status["jobs"], [])
            for key in ("prepared", "delivered", "jobs_total", "cache_bytes", "evictions", "prepared_again",
                        "dropped_unused", "cpu_seconds", "tenants", "strangers", "jobs_bytes", "until_idle",
                        "descriptors"):
                self.assertNotIn(key, status)
            self.assertEqual(status["tenant"]["name"], "mine")
            theirs = victim.status(2)
            self.assertEqual([job["name"] for job in theirs["jobs"]], ["unheard-of"])
            self.assert_whole(victim)

    #  Everything that a tenant can ask without a job of its own, and what it hears.
    def questions(self, attacker):
        heard = []
        for keys in (dict(JOIN_KEYS, dataset="secret"), dict(JOIN_KEYS, batch_size=0),
                     dict(JOIN_KEYS, pipeline="nosuch"), dict(JOIN_KEYS, batch_size=65536, slots=16),
                     dict(JOIN_KEYS, job="night", rank=1, world_size=2, gather=1),
                     dict(JOIN_KEYS, pipeline=[{"op": "resize", "size": 9000}]), dict(JOIN_KEYS, seed="-1")):
            answer = attacker.join(3, keys)
            self.assertIn("error", answer)
            heard.append(answer)
        for kind in (0, *range(2, 5), *range(6, 10), 15, 16, 128, 129, 255):        # all but JOIN and STATUS
            for number in (0, 2**32 + 1, 2**33 + 1):
                heard.append(attacker.say(3, kind, number, b"{}".hex()))
        status = attacker.status(3)
        for key in ("uptime_seconds",):
            status.pop(key)
        for data in status["datasets"]:
            data.pop("listed_seconds")
        status["tenant"].pop("refusals")        # counted from one round to the next
        heard.append(status)
        return heard

    def test_what_is_heard_does_not_depend_on_others(self):
        with self.serve() as server:
            attacker = self.puppet(server, MINE)
            before = self.questions(attacker)
            victim, joined = self.victim(server, job="night", run="c" * 32)
            during = self.questions(attacker)
            self.assertEqual(len(before), len(during))
            for one, other in zip(before, during):
                self.assertEqual(one, other)
            self.assert_whole(victim)

    def test_numbers_of_jobs_tell_nothing(self):
        #  Another tenant's joins do not show in one's own numbers.
        with self.serve() as server:
            attacker, others = self.puppet(server, MINE), self.puppet(server, THEIRS)
            numbers = []
            for _ in range(3):
                numbers.append(int(attacker.join(1, JOIN_KEYS)["joined"]["job"]))
                attacker.leave(1)
                for _ in range(4):
                    others.join(1, JOIN_KEYS)
                    others.leave(1)
            self.assertEqual([number - numbers[0] for number in numbers], [0, 1, 2])


@unittest.skipUnless(os.getuid() == 0, "SKIPPED, nothing was tested: two users of one machine need root")
class Users (Crossing, Ways):
    def listen(self):
        return "ipc://%s/sockets/s.sock" % self.folder

    def setUp(self):
        super().setUp()
        sockets = os.path.join(self.folder, "sockets")
        os.mkdir(sockets)
        os.chown(sockets, 0, GROUP)
        os.chmod(sockets, 0o750)

    def arguments(self):
        return ["--group", str(GROUP)] + self.tenants(MINE, THEIRS)

    def identity(self, user):
        return {"user": user}

    def test_a_stolen_ring_token(self):
        with self.serve() as server:
            victim = self.puppet(server, THEIRS)
            joined = victim.join(1, dict(JOIN_KEYS, dataset="secret"))["joined"]
            attacker = self.puppet(server, MINE)
            self.assertNotEqual(attacker.ring(joined["ring"]["path"], joined["ring"]["token"]), "ring")
            #  It is the victim's still.
            victim.start(1)
            victim.had = victim.take(1, 1)["batches"]
            self.assertNotEqual(attacker.ring(joined["ring"]["path"], joined["ring"]["token"]), "ring")
            self.assert_whole(victim)

    def test_a_stranger_gets_no_answer(self):
        with self.serve() as server:
            stranger = self.puppet(server, STRANGER)
            for kind in range(10):
                self.assertIsNone(stranger.say(kind, kind, 0, b"{}".hex(), seconds=0.2))
            self.assertIsNone(stranger.join(1, JOIN_KEYS, seconds=SILENCE)["joined"])
            self.assertGreaterEqual(server.status()["strangers"], 10)


class Keys (Crossing, Ways):
    def setUp(self):
        super().setUp()
        self.keys = os.path.join(self.folder, "keys")
        for tenant in ("mine", "theirs"):
            path = os.path.join(self.folder, tenant)
            for command in (["new", path], ["allow", self.keys, path, "--tenant", tenant]):
                result = harness.run("key", *command)
                self.assertEqual(result.returncode, 0, result.stderr)

    def listen(self):
        return "tcp://127.0.0.1:%d" % harness.free_port()

    def arguments(self):
        return ["--keys", self.keys] + self.tenants("-", "-")

    def words(self, path):
        with open(path) as file:
            return dict(line.strip().replace('"', "").split(" = ") for line in file if " = " in line)

    def identity(self, user):
        pair = self.words(os.path.join(self.folder, "mine_secret" if user == MINE else "theirs_secret"))
        server = self.words(os.path.join(self.keys, "server"))
        return {"curve": [pair["public-key"], pair["secret-key"], server["public-key"]]}


#   ---- what is said twice

class Replays(SystemTest):
    """A plain server; one user says things again, from the same connection and from others."""
    SAMPLES = 200

    def begin(self, server, **keys):
        job = Course(server.endpoint)
        self.addCleanup(job.close)
        job.join(**dict(JOIN_KEYS, **keys))
        job.start()
        return job

    def take(self, job, count=None):
        ids = {}
        while count is None or count > 0:
            event = job.event()
            if isinstance(event, EpochEnd):
                if event.last:
                    break
                continue
            self.assertIsInstance(event, Batch)
            ids.setdefault(event.epoch, []).extend(event.ids)
            event.fields.clear()
            job.done_with(event)
            count = count and count - 1
        return ids

    def assert_exact(self, *parts):
        got = {}
        for part in parts:
            for epoch, ids in part.items():
                got.setdefault(epoch, []).extend(ids)
        self.assertEqual({epoch: sorted(ids) for epoch, ids in got.items()},
                         {epoch: list(range(self.SAMPLES)) for epoch in range(JOIN_KEYS["epochs"])})

    def refused(self, connection, kind, number, body=None):
        with self.assertRaises(plain_client.Refused) as caught:
            connection.ask(kind, number, *([body] if body is not None else []))
        return caught.exception.code

    def test_progress_again_and_older(self):
        with self.serve() as server:
            job = self.begin(server)
            first = self.take(job, 4)
            for _ in range(100):
                job.send(plain_client.PROGRESS_KIND, job.number, 0, PROGRESS.pack(4, 4, 0))
            #  An older one goes back: refused, and nothing changes.
            self.assertEqual(self.refused(job, plain_client.PROGRESS_KIND, job.number,
                                          PROGRESS.pack(2, 2, 0)), "bad_request")
            other = plain_client.Connection(server.endpoint)
            self.addCleanup(other.close)
            self.assertEqual(self.refused(other, plain_client.PROGRESS_KIND, job.number,
                                          PROGRESS.pack(5, 5, 0)), "unknown_job")
            self.assert_exact(first, self.take(job))

    def test_join_again(self):
        #  The same bytes by the same connection: it has a job.  By another one: a job of its own, and the
        #  first is not touched.
        with self.serve() as server:
            bystander = self.begin(server, name="bystander")
            first = self.take(bystander, 2)
            message = [HEAD.pack(b"TURN", 1, plain_client.JOIN, 0, 0, 9), json.dumps(JOIN_KEYS).encode()]
            one, other = plain_client.Connection(server.endpoint), plain_client.Connection(server.endpoint)
            numbers = []
            for connection in (one, one, other):
                connection.send_raw(message)
            for connection in (one, other):
                answer = connection.receive()
                self.assertEqual(answer.kind, plain_client.JOINED)
                numbers.append(answer.job)
            answer = one.receive()
            while answer.kind == plain_client.HEARTBEAT:        # they come until the ring is taken
                answer = one.receive()
            self.assertEqual((answer.kind, json.loads(answer.frames[0].decode())["error"]),
                             (plain_client.ERROR, "already_joined"))
            self.assertEqual(len(set(numbers + [bystander.number])), 3)
            one.close()
            other.close()
            self.assert_exact(first, self.take(bystander))

    def test_a_token_again(self):
        with self.serve() as server:
            job = Course(server.endpoint)
            self.addCleanup(job.close)
            job.join(**JOIN_KEYS)
            job.start()
            for _ in range(3):
                ring_socket, descriptor = job.open_ring()
                self.assertIsNone(descriptor)
                ring_socket.close()
            self.assert_exact(self.take(job))

    def test_leave_twice(self):
        with self.serve() as server:
            bystander = self.begin(server)
            first = self.take(bystander, 2)
            job = self.begin(server)
            number = job.number
            self.assertEqual(job.leave().reason, "left")
            for kind, body in ((plain_client.LEAVE, None),
                               (plain_client.PROGRESS_KIND, PROGRESS.pack(0, 0, 0)),
                               (plain_client.EXPLAIN, b'{"id": "1"}')):
                self.assertEqual(self.refused(job, kind, number, body), "unknown_job")
            self.assertEqual(self.refused(job, plain_client.LEAVE, bystander.number), "unknown_job")
            self.assert_exact(first, self.take(bystander))

    def test_a_ghost_comes_back(self):
        #  Its client has joined anew, from another connection: whatever the first says then moves nothing.
        with self.serve() as server:
            ghost = Course(server.endpoint)
            self.addCleanup(ghost.close)
            ghost.begin({}, instance="e" * 32, **JOIN_KEYS)
            first = ghost.walk(3)
            anew = Course(server.endpoint)
            self.addCleanup(anew.close)
            anew.begin(ghost.state, instance="e" * 32, **JOIN_KEYS)
            wait_until("the ghost is told", lambda: any(message.kind == plain_client.ENDED for message in
                       iter(lambda: ghost._receive(0.5), None)))
            for body in (PROGRESS.pack(3, 3, 0), PROGRESS.pack(4, 4, 0)):
                self.assertEqual(self.refused(ghost, plain_client.PROGRESS_KIND, ghost.number, body),
                                 "unknown_job")
            self.assertEqual(self.refused(ghost, plain_client.LEAVE, anew.number), "unknown_job")
            self.assert_exact(first, anew.walk())


class Versions(SystemTest):
    SAMPLES = 20

    def test_every_kind_in_other_versions(self):
        #  A clear answer, in words that clients of all versions can read.
        with self.serve() as server:
            connection = plain_client.Connection(server.endpoint)
            for version in (0, 2, 255):
                for kind in (*range(10), 129, 255):
                    connection.send_raw([HEAD.pack(b"TURN", version, kind, 0, 0, 4), b"{}"])
                    answer = connection.receive()
                    self.assertEqual((answer.kind, answer.tag), (plain_client.ERROR, 4))
                    told = json.loads(answer.frames[0].decode())
                    self.assertEqual((told["error"], told["versions"]), ("version", [1]))
            self.assertEqual(connection.status()["refusals"], {"version": 36})
            connection.close()


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--puppet":
        puppet_main(sys.argv[2])
    else:
        unittest.main(verbosity=2)
