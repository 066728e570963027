"""A client written from docs/protocol.md alone: pyzmq, struct, mmap, a Unix socket.  It shares nothing with
Tureen's own clients, so it proves the document.  One thread; the caller decides when anything is sent, which
tests need.

    job = Job (endpoint); job.join (dataset="train", batch_size=64, epochs=2); job.take_ring ()
    for event in job.events (): ...

Course is a job that goes on where another one stopped.  Of a job with ranks, each Job or Course is one rank:
ask_join or set_out of each, then joined_answer or arrive of each.

As a program: `plain_client.py '{"endpoint": .., "join": {..}}'` prints what it got as JSON.
"""
import array
import collections
import json
import mmap
import os
import socket
import struct
import sys
import time

import zmq

HEAD = struct.Struct("<4sBBHQQ")
BATCH = struct.Struct("<QQQIIII")
EPOCH_END = struct.Struct("<QQQII")
PROGRESS = struct.Struct("<QQQ")

JOIN, INLINE, PROGRESS_KIND, LEAVE, STATUS, HEARTBEAT, EXPLAIN = range(1, 8)
JOINED, BATCH_KIND, EPOCH_END_KIND, ENDED, STATUS_REPLY, ERROR, NOTICE, EXPLAIN_REPLY = range(129, 137)

Message = collections.namedtuple("Message", "kind job tag frames")
#   step: of ranks, the ids of each; is_padding: one sample once more, outside of all counts.
Batch = collections.namedtuple("Batch", "sequence epoch index slot count ids fields step is_padding")
EpochEnd = collections.namedtuple("EpochEnd", "epoch samples batches last")
Ended = collections.namedtuple("Ended", "reason message")
Notice = collections.namedtuple("Notice", "kind message")
#   What a rank received last: a step (ids of each rank) or an epoch's end.
Step = collections.namedtuple("Step", "epoch index step")
SLOT_NONE = 2**32 - 1                   # of a batch that is in no slot

#   How each dtype is looked at, and its bytes; 16-bit floats as they lie there.
SIZES = {"bool": ("B", 1), "uint8": ("B", 1), "int8": ("b", 1), "uint16": ("H", 2), "int16": ("h", 2),
         "uint32": ("I", 4), "int32": ("i", 4), "uint64": ("Q", 8), "int64": ("q", 8), "float16": ("H", 2),
         "bfloat16": ("H", 2), "float32": ("f", 4), "float64": ("d", 8)}


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__("%s: %s" % (code, message))
        self.code, self.message = code, message


class NoAnswer(Exception):
    pass


def ids_ranges(*ranges):
    return b"\x01" + bytes(7) + b"".join(struct.pack("<QQ", lo, hi) for lo, hi in ranges)


def ids_words(ids, samples):
    words = [0] * ((samples + 63) // 64)
    for number in ids:
        words[number // 64] |= 1 << number % 64
    return b"\x02" + bytes(7) + struct.pack("<%dQ" % len(words), *words)


def ids_list(ids):
    return b"\x03" + bytes(7) + struct.pack("<%dQ" % len(ids), *ids)


def recent_numbers(records):
    """Steps and EpochEnds, as they came."""
    numbers = []
    for record in records:
        if isinstance(record, EpochEnd):
            numbers += [1, record.epoch, record.batches, record.samples]
        else:
            ids = [number for part in record.step for number in part]
            numbers += [0, record.epoch, record.index, len(ids), *map(len, record.step), *ids]
    return numbers


def ids_recent(numbers):
    return b"\x04" + bytes(7) + struct.pack("<%dQ" % len(numbers), *numbers)


def send_if_let(dealer, *frames):
    """A client that has been turned away by now has no peer to send to, and would wait for ever."""
    try:
        dealer.send_multipart(frames, zmq.NOBLOCK)
    except zmq.Again:
        pass


class Connection:
    """A DEALER; one message at a time."""

    def __init__(self, endpoint, timeout=30, curve=None):
        """curve: its public key, its secret one, the server's public one; Z85."""
        self.context = zmq.Context.instance()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 1000)
        #  A client that is turned away has no peer to send to
        self.socket.setsockopt(zmq.SNDTIMEO, int(timeout * 1000))
        if curve:
            self.socket.curve_publickey, self.socket.curve_secretkey, self.socket.curve_serverkey = curve
        self.socket.connect(endpoint)
        self.endpoint, self.timeout = endpoint, timeout
        self.tag = 0
        self.waiting = collections.deque()      # messages that came while an answer was waited for

    def close(self):
        self.socket.close()

    def send(self, kind, job=0, tag=0, *frames):
        self.socket.send_multipart([HEAD.pack(b"TURN", 1, kind, 0, job, tag), *frames])

    def send_raw(self, frames):
        self.socket.send_multipart(frames)

    def receive(self, seconds=None):
        """The next message, or None after that time."""
        if self.waiting:
            return self.waiting.popleft()
        return self._receive(self.timeout if seconds is None else seconds)

    def _receive(self, seconds):
        if not self.socket.poll(max(0, int(seconds * 1000))):
            return None
        frames = self.socket.recv_multipart()
        magic, version, kind, zero, job, tag = HEAD.unpack(frames[0])
        if (magic, version, zero) != (b"TURN", 1, 0):
            raise AssertionError("a head that is none: %r" % frames[0])
        return Message(kind, job, tag, frames[1:])

    def ask(self, kind, job=0, *frames):
        """Sends it and gives the answer, by its tag; an ERROR is raised."""
        self.tag += 1
        self.send(kind, job, self.tag, *frames)
        deadline = time.monotonic() + self.timeout
        while True:
            message = self._receive(deadline - time.monotonic())
            if message is None:
                raise NoAnswer("to kind %d" % kind)
            if message.tag == self.tag and message.kind in (JOINED, ENDED, STATUS_REPLY, ERROR,
                                                            EXPLAIN_REPLY):
                break
            self.waiting.append(message)
        if message.kind == ERROR:
            raise refusal(message)
        return message

    def status(self):
        return json.loads(self.ask(STATUS, 0, b"{}").frames[0].decode())


def refusal(message):
    text = json.loads(message.frames[0].decode())
    return Refused(text["error"], text["message"])


class Job(Connection):
    """One job.  Batches of the ring are lent until they are released."""

    def __init__(self, endpoint, timeout=30, curve=None):
        super().__init__(endpoint, timeout, curve)
        self.joined = self.memory = self.ring_socket = None
        self.notices = {}                       # text by kind
        self.gathering = []                     # texts, until it has joined
        self.is_inline = False
        self.beat_at = 0.0

    def join(self, id_frames=(), **keys):
        self.ask_join(id_frames, **keys)
        if not self.joined_answer():
            raise NoAnswer("to JOIN")
        return self.joined

    def ask_join(self, id_frames=(), **keys):
        self.tag += 1
        self.asked, self.asked_keys, self.gathering = self.tag, keys, []
        self.send(JOIN, 0, self.tag, json.dumps(keys).encode(), *id_frames)

    def joined_answer(self, seconds=None):
        """What JOINED says; None if it has not come by then.  An ERROR is raised."""
        deadline = time.monotonic() + (self.timeout if seconds is None else seconds)
        while True:
            message = self._receive(deadline - time.monotonic())
            if message is None:
                return None
            if message.tag == self.asked and message.kind == NOTICE:
                notice = json.loads(message.frames[0].decode())
                assert (message.job, notice["notice"]) == (0, "gathering"), notice
                assert self.asked_keys.get("world_size", 1) > 1, "a plain job is never kept waiting"
                self.gathering.append(notice["message"])
            elif message.tag == self.asked and message.kind in (JOINED, ERROR):
                break
            else:
                self.waiting.append(message)
        if message.kind == ERROR:
            raise refusal(message)
        self.joined = json.loads(message.frames[0].decode())
        self.number = int(self.joined["job"])
        assert message.job == self.number
        self.rank, self.world_size = (self.asked_keys.get(key, value) for key,
                                      value in (("rank", 0), ("world_size", 1)))
        assert (self.joined["rank"], self.joined["world_size"]) == (self.rank, self.world_size), self.joined
        self.sent = self.consumed = self.released = self.kept = 0
        self.is_inline = self.joined["ring"] is None
        return self.joined

    #   ---- memory

    def open_ring(self, token=None):
        """Connects to the ring's socket and says the token; returns the socket, and the descriptor or
        None."""
        ring = self.joined["ring"]
        ring_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        ring_socket.settimeout(self.timeout)
        ring_socket.connect(ring["path"])
        try:
            ring_socket.sendall((ring["token"] if token is None else token).encode())
            data, control, _, _ = ring_socket.recvmsg(1, socket.CMSG_SPACE(4))
        except (BrokenPipeError, ConnectionResetError):
            return ring_socket, None
        for level, kind, bytes_ in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS and data == b"R":
                return ring_socket, array.array("i", bytes_[:4])[0]
        return ring_socket, None

    def take_ring(self):
        self.ring_socket, descriptor = self.open_ring()
        if descriptor is None:
            raise AssertionError("no descriptor came")
        size = int(self.joined["ring"]["bytes"])
        assert os.fstat(descriptor).st_size == size == self.joined["slots"] * int(self.joined["slot_bytes"])
        self.memory = mmap.mmap(descriptor, size, mmap.MAP_SHARED)
        os.close(descriptor)

    def go_inline(self):
        self.send(INLINE, self.number)
        self.is_inline = True

    def start(self):
        """Whatever the server offers."""
        if not self.is_inline:
            self.take_ring()

    #   ---- events

    def beat(self):
        """The heartbeat of inline jobs; called whenever we wait."""
        if self.is_inline and time.monotonic() >= self.beat_at:
            self.send(HEARTBEAT, self.number)
            self.beat_at = time.monotonic() + self.joined["heartbeat_ms"] / 2000

    def event(self, seconds=None, with_notices=False):
        """The next Batch, EpochEnd or Ended, or Notice if they are asked for; None after that time.  An ERROR
        is raised."""
        deadline = time.monotonic() + (self.timeout if seconds is None else seconds)
        while True:
            self.beat()
            left = deadline - time.monotonic()
            message = self.receive(max(0, min(left, 0.2)))
            if message is None:
                if left <= 0:
                    return None
                continue
            if message.kind == ERROR:
                raise refusal(message)
            if message.kind == ENDED:
                return Ended(**json.loads(message.frames[0].decode()))
            if message.job != self.number:
                raise AssertionError("a message for job %d, not %d" % (message.job, self.number))
            if message.kind == NOTICE:
                notice = json.loads(message.frames[0].decode())
                again = notice["notice"] in ("rank_lost", "unreadable")
                assert notice["notice"] not in self.notices or again, "told twice: %s" % notice
                self.notices[notice["notice"]] = notice["message"]
                if with_notices:
                    return Notice(notice["notice"], notice["message"])
            if message.kind == BATCH_KIND:
                return self._batch(message.frames)
            if message.kind == EPOCH_END_KIND:
                epoch, samples, batches, flags, _ = EPOCH_END.unpack(message.frames[0])
                return EpochEnd(epoch, samples, batches, bool(flags & 1))

    def _batch(self, frames):
        sequence, epoch, index, slot, count, flags, _ = BATCH.unpack(frames[0])
        assert sequence == self.sent, "batch %d came, not %d" % (sequence, self.sent)
        is_inline, is_padding, has_step = bool(flags & 1), bool(flags & 2), self.world_size > 1
        assert is_inline == (self.is_inline or slot == SLOT_NONE) and len(frames) == 2 + has_step + is_inline
        assert 1 <= count <= self.joined["batch_size"] and (slot < self.joined["slots"] or has_step
                                                            and slot == SLOT_NONE)
        self.sent += 1
        ids = struct.unpack("<%dQ" % count, frames[1])
        step = self._step(frames[2], ids, is_padding) if has_step else None
        assert has_step or not is_padding
        slot_bytes = int(self.joined["slot_bytes"])
        if is_inline:
            assert len(frames[-1]) == slot_bytes
            memory = memoryview(frames[-1])
        else:
            memory = memoryview(self.memory)[slot * slot_bytes:(slot + 1) * slot_bytes]
        fields = {}
        for field in self.joined["fields"]:
            begin, size = int(field["offset"]), int(field["sample_bytes"])
            kind, bytes_ = SIZES[field["dtype"]]
            values = bytes_
            for length in field["shape"]:
                values *= length
            assert values == size
            fields[field["name"]] = memory[begin:begin + count * size].cast(kind)
        return Batch(sequence, epoch, index, slot, count, ids, fields, step, is_padding)

    def _step(self, frame, ids, is_padding):
        """The ids of each rank, mine being what came."""
        numbers = struct.unpack("<%dQ" % (len(frame) // 8), frame)
        counts, begin, step = numbers[:self.world_size], self.world_size, []
        assert len(numbers) == self.world_size + sum(counts), (counts, len(numbers))
        for count in counts:
            step.append(numbers[begin:begin + count])
            begin += count
        assert step[self.rank] == (() if is_padding else ids), (self.rank, ids, step)
        if is_padding:
            assert len(ids) == 1 and ids[0] in numbers[self.world_size:], (ids, step)
        return tuple(step)

    def progress(self, consumed=None, released=None, kept=0):
        if consumed is not None:
            self.consumed = consumed
        if released is not None:
            self.released = released
        self.send(PROGRESS_KIND, self.number, 0, PROGRESS.pack(self.consumed, self.released, kept))

    def explain(self, number, **keys):
        answer = self.ask(EXPLAIN, self.number, json.dumps(dict(keys, id=str(number))).encode())
        assert answer.kind == EXPLAIN_REPLY and answer.job == self.number
        return json.loads(answer.frames[0].decode())

    def done_with(self, batch):
        self.progress(batch.sequence + 1, batch.sequence + 1)

    def leave(self):
        """LEAVE, and its answer."""
        answer = self.ask(LEAVE, self.number)
        self.waiting.clear()
        self.drop_ring()
        return Ended(**json.loads(answer.frames[0].decode()))

    def drop_ring(self):
        if self.ring_socket:
            self.ring_socket.close()
        self.ring_socket = self.memory = None   # mapped until the last view of it goes

    def close(self):
        self.drop_ring()
        super().close()

    def run(self, labels=None, pause=0.0, seen=None):
        """Takes everything to the job's end.  Checks the numbering, the ends of epochs and the labels.  seen
        (id, image bytes) is called for each sample.  {epoch: ids}, of a rank its own"""
        epochs, index, samples = {}, 0, 0
        while True:
            event = self.event()
            if event is None:
                raise NoAnswer("no batch within %s seconds" % self.timeout)
            if isinstance(event, Ended):
                raise Refused("ended", "%s: %s" % event)
            if isinstance(event, EpochEnd):
                epochs.setdefault(event.epoch, [])
                assert (event.samples, event.batches) == (samples, index), "%s: %d in %d" % (event, samples,
                    index)
                index = samples = 0
                if event.last:
                    return epochs
                continue
            assert event.index == index, "batch %d of the epoch came, not %d" % (event.index, index)
            index += 1
            samples += sum(map(len, event.step)) if event.step else event.count
            epochs.setdefault(event.epoch, []).extend(() if event.is_padding else event.ids)
            if labels is not None:
                expected = [labels[number] for number in event.ids]
                assert event.fields["label"].tolist() == expected, "labels of batch %d" % event.sequence
            if seen:
                image = event.fields["image"]
                size = len(image) // event.count
                for row, number in enumerate(event.ids):
                    seen(number, bytes(image[row * size:(row + 1) * size]))
            if pause:
                time.sleep(pause)
            fields = event.fields
            event = event._replace(fields=None)
            fields.clear()
            self.done_with(event)


class Course(Job):
    """A job that knows where it stands, and begins there.  state: what another one's was; {} at the
    beginning.  Of a job with ranks it knows where the whole job stands: each rank the same after the same
    step."""

    def begin(self, state, ids=None, taken_as=ids_words, recent=None, **keys):
        self.set_out(state, ids, taken_as, recent, **keys)
        return self.arrive()

    def set_out(self, state, ids=None, taken_as=ids_words, recent=None, recent_frames=None, **keys):
        """Asks, and waits for nothing.  ids: the job's list, for order "list"; recent: what it received
        last."""
        frames, names = ([ids_list(ids)], ["list"]) if ids else ([], [])
        if state:
            keys = dict({"run": state["run"]}, **keys)
            keys["resume"] = {key: str(state[key]) for key in ("fingerprint", "data", "epoch", "batches")}
            if ids:
                keys["resume"]["places"] = str(len(state["taken"]))
            else:
                frames.append(taken_as(state["taken"], state["samples"]))
                names.append("taken")
        if recent and recent_frames is None:
            recent_frames = [ids_recent(recent_numbers(recent))]
        frames, names = frames + (recent_frames or []), names + ["recent"] * len(recent_frames or [])
        self.state, self.recent = dict(state), list(recent or [])
        self.ask_join(frames, frames=names, **keys)

    def arrive(self):
        if not self.joined_answer():
            raise NoAnswer("to JOIN")
        self.state = dict({"epoch": 0, "batches": 0, "taken": []}, **self.state)
        self.state.update({key: self.joined[key] for key in ("fingerprint", "data", "run")},
                          samples=int(self.joined["dataset_samples"]))
        self.start()
        return self

    def take(self, seen=None, save=None, with_notices=False, seconds=None):
        """The next Batch, which is looked at and done with, or EpochEnd; the state is then behind it.  Or a
        Notice; or None after so many seconds, if they are given."""
        event, state = self.event(seconds, with_notices), self.state
        if event is None and seconds is not None:
            return None
        if event is None:
            raise NoAnswer("no batch within %s seconds" % self.timeout)
        if isinstance(event, Ended):
            raise Refused(event.reason, event.message)
        if isinstance(event, Notice):
            return event
        assert event.epoch == state["epoch"], "%s in epoch %d" % (event, state["epoch"])
        if isinstance(event, EpochEnd):
            assert (event.samples, event.batches) == (len(state["taken"]), state["batches"]), (event, state)
            state.update(epoch=event.epoch + 1, batches=0, taken=[])
            self.remember(event)
            return event
        assert event.index == state["batches"], "batch %d of the epoch came, not %d" % (event.index,
            state["batches"])
        size = len(event.fields["image"]) // event.count
        for row, number in enumerate(event.ids if seen else ()):
            seen(event.epoch, number, bytes(event.fields["image"][row * size:(row + 1) * size]))
        ids = event.ids if event.step is None else [number for part in event.step for number in part]
        state.update(batches=event.index + 1, taken=state["taken"] + list(ids))
        self.remember(Step(event.epoch, event.index, event.step))
        event.fields.clear()
        if save:
            save(state)
        self.done_with(event)
        return event

    def remember(self, record):
        """The last slots + 1 steps, and the ends of epochs among them."""
        self.recent.append(record)
        steps = [place for place, known in enumerate(self.recent) if isinstance(known, Step)]
        if len(steps) > self.joined["slots"] + 1:
            del self.recent[:steps[-self.joined["slots"] - 1]]

    def walk(self, batches=None, seen=None, save=None, pause=0.0):
        """Takes so many, or what comes to the job's end.  seen (epoch, id, image's bytes); save (state) after
        each. {epoch: ids}"""
        epochs, count = {}, 0
        while batches is None or count < batches:
            event = self.take(seen, save)
            ids = epochs.setdefault(event.epoch, [])
            if isinstance(event, EpochEnd):
                if event.last:
                    break
                continue
            ids.extend(() if event.is_padding else event.ids)
            count += 1
            if pause:
                time.sleep(pause)
        return epochs


def save_state(path, state):
    """Whole or not at all, whenever this process is killed."""
    with open(path + ".part", "w") as file:
        json.dump(state, file)
    os.rename(path + ".part", path)


def main():
    request = json.loads(sys.argv[1])
    if "course" in request:
        course = Course(request["endpoint"], request.get("timeout", 60)).begin({}, **request["course"])
        course.walk(save=lambda state: save_state(request["state"], state), pause=request["pause"])
        return
    frames = []
    if "ranges" in request:
        frames, request["join"]["frames"] = [ids_ranges(*request["ranges"])], ["subset"]
    if "list" in request:
        frames, request["join"]["frames"] = [ids_list(request["list"])], ["list"]
    job = Job(request["endpoint"], request.get("timeout", 60))
    joined = job.join(frames, **request["join"])
    job.start()
    epochs = job.run(request.get("labels"), request.get("pause", 0))
    ended = job.leave()
    job.close()
    print(json.dumps({"epochs": epochs, "ended": ended.reason, "samples": int(joined["samples"]),
                      "ring": joined["ring"] is not None}))


if __name__ == "__main__":
    main()
