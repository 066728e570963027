"""Order `seeded`: the same seed gives the same batches, bit for bit, whatever else runs, on whichever server;
and its order is known before anything is drawn."""
import json
import os
import shutil
import struct
import tempfile
import unittest
import zlib

import harness
import plain_client
from harness import Server, SystemTest, wait_until

MASK = 2**64 - 1
BATCH = 32


#   ---- the order, from the description in sampler/permutation.h

def mix(number):
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9 & MASK
    number = (number ^ number >> 27) * 0x94d049bb133111eb & MASK
    return number ^ number >> 31


class Random:
    """splitmix64."""

    def __init__(self, state):
        self.state = state

    def next(self):
        self.state = self.state + 0x9e3779b97f4a7c15 & MASK
        return mix(self.state)

    def below(self, bound):
        while True:
            product = self.next() * bound
            if product & MASK >= 2**64 % bound:
                return product >> 64


def permutation(seed, epoch, count):
    random = Random(mix(mix(mix(seed) ^ epoch) ^ count))
    if count <= 64:
        ranks = list(range(count))
        for place in range(count - 1, 0, -1):
            other = random.below(place + 1)
            ranks[place], ranks[other] = ranks[other], ranks[place]
        return ranks
    rows = 1
    while rows * rows < count:
        rows *= 2
    columns = -(-count // rows)
    keys = [random.next() for _ in range(24 if count < 4096 else 12)]

    def once(cell):
        column, row = divmod(cell, rows)
        for number, key in enumerate(keys):
            if number % 2 == 0:
                row = (row + mix(key ^ column)) % rows
            else:
                column = (column + ((mix(key ^ row) >> 32) * columns >> 32)) % columns
        return column * rows + row

    ranks = []
    for position in range(count):
        cell = once(position)
        while cell >= count:
            cell = once(cell)
        ranks.append(cell)
    return ranks


def order(seed, epochs, ids):
    """{epoch: ids}, as `seeded` must deliver the data that these ids are."""
    ids = sorted(ids)
    return {epoch: [ids[rank] for rank in permutation(seed, epoch, len(ids))] for epoch in range(epochs)}


#   ---- the order with a pool, from the description in sampler/stream_order.h

def stream_order(seed, epoch, pack_order, data, pool):
    """pack_order: the id at each position of the pack; data: a set of ids."""
    members = [number for number in pack_order if number in data]
    count, state = len(members), seed
    for number in (epoch, len(members), pool):
        state = Random(state).next() ^ number
    random = Random(state)
    shift = random.below(count)
    pieces = permutation(random.next(), 0, -(-count // 8))
    ids, entries = [], []
    while len(ids) < count:
        room = min(pool, 128 + 2 * len(ids))
        while pieces and len(entries) + 8 <= room:
            begin = 8 * pieces.pop(0)
            entries += [members[(shift + rank) % count] for rank in range(begin, min(begin + 8, count))]
        place = random.below(len(entries))
        ids.append(entries[place])
        last = entries.pop()
        if place < len(entries):
            entries[place] = last
    return ids


#   ---- jobs in this process

def take(server, ranges=None, stop_after=None, **keys):
    """All batches of a job: {epoch: [(ids, checksum of the pixels, labels)]}; stop_after: so many, then it
    leaves."""
    frames = []
    if ranges:
        frames, keys["frames"] = [plain_client.ids_ranges(*ranges)], ["subset"]
    job, taken, count = plain_client.Job(server.endpoint), {}, 0
    job.join(frames, **dict({"dataset": "train", "batch_size": BATCH, "epochs": 3}, **keys))
    job.start()
    while count != stop_after:
        event = job.event(harness.PATIENCE)
        if isinstance(event, plain_client.EpochEnd):
            if event.last:
                break
            continue
        assert isinstance(event, plain_client.Batch), event
        count += 1
        taken.setdefault(event.epoch, []).append((event.ids, zlib.crc32(event.fields["image"]),
                                                  tuple(event.fields["label"])))
        event.fields.clear()
        job.done_with(event)
    seed = int(job.joined["seed"])
    job.leave()
    job.close()
    return taken, seed


def ids_of(taken):
    return {epoch: [number for ids, _, _ in batches for number in ids] for epoch, batches in taken.items()}


def pictures(server, **keys):
    """{(epoch, id): checksum of its pixels}, in batches of one."""
    taken, _ = take(server, batch_size=1, **keys)
    return {(epoch, ids[0]): checksum for epoch, batches in taken.items() for ids, checksum, _ in batches}


class Seeded(SystemTest):
    SAMPLES = 300
    EPOCHS = 3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.seed = harness.SEED * 7919 + 2**63
        cls.policies = cls.known_policies()
        #  What all are compared with: one worker, much memory, no other job.
        with Server({"train": cls.data}, workers=1) as server:
            cls.reference, seed = take(server, seed=str(cls.seed))
        assert seed == cls.seed

    @staticmethod
    def known_policies():
        """The policies that this server has, from its help: `--policy NAME  how jobs ..: dsa or follow
        (default: dsa)`."""
        words = harness.run("serve", "--help").stdout.replace(",", " ").split()
        return [name for name in ("dsa", "follow") if name in words]

    def test_the_order_is_the_permutation(self):
        self.assertEqual(ids_of(self.reference), order(self.seed, self.EPOCHS, range(self.SAMPLES)))
        for epoch, batches in self.reference.items():
            self.assertEqual([len(ids) for ids, _, _ in batches], [32] * 9 + [12])
            for ids, _, labels in batches:
                self.assertEqual(list(labels), [self.labels[number] for number in ids], "epoch %d" % epoch)

    def test_the_same_beside_others_on_other_servers(self):
        other = str(self.seed ^ 1)
        for policy in self.policies:
            with self.serve(workers=3, cache="3M", arguments=["--policy", policy]) as server:
                crowd = [server.read(batch=17, epochs=0, rate=200),
                         server.read(batch=64, epochs=0, rate=200, order="private"),
                         server.read(batch=BATCH, epochs=0, seed=other, rate=200),
                         server.read("--inline", batch=BATCH, epochs=0, seed=self.seed, rate=300),
                         server.read(batch=40, epochs=0, rate=200, recipe="eval", subset="100:200")]
                wait_until("the others run", lambda: all(job.delivered() > 100 for job in crowd))
                for keys in ({"transport": "inline"}, {"slots": 9}, {"order": "seeded", "slots": 3},
                             {"epochs": None, "stop_after": 25}, {"name": "again", "stop_after": 3}):
                    taken, _ = take(server, seed=str(self.seed), **keys)
                    count = keys.get("stop_after")
                    wanted, left = {}, count or 30
                    for epoch, batches in self.reference.items():
                        if left > 0:
                            wanted[epoch] = batches[:left]
                        left -= len(batches)
                    self.assertEqual(taken, wanted, "%s, %s" % (policy, keys))
                names = {job["name"] for job in server.status()["jobs"]}
                self.assertEqual((len(crowd), names), (len(server.status()["jobs"]), {""}),
                                 "the others are gone")

    def test_all_clients_come_to_the_same(self):
        wanted = order(self.seed, 2, range(self.SAMPLES))
        with self.serve() as server:
            jobs = [server.read(batch=BATCH, epochs=2, seed=self.seed),
                    server.read("--inline", batch=BATCH, epochs=2, seed=self.seed, order="seeded"),
                    server.loader(dataset="train", batch_size=BATCH, epochs=2, seed=self.seed,
                                  labels=self.labels),
                    server.loader(dataset="train", batch_size=50, epochs=2, seed=self.seed, order="seeded",
                                  transport="inline", labels=self.labels)]
            results = [job.finish() for job in jobs]
            for result in results:
                self.assertEqual(result["epochs"], wanted)
            self.assertEqual(results[0]["checksum"], results[1]["checksum"])
            self.assertEqual([result["wrong_labels"] for result in results[2:]], [0, 0])
            #  Beside an order, a seed is what it was before there was this one.
            for keys in ({"order": "shared"}, {"order": "private"}):
                result = server.read(batch=BATCH, epochs=2, seed=self.seed, **keys).finish()
                self.assert_epochs(result, 2)
                self.assertNotEqual(result["epochs"], wanted)
            result = server.read(batch=BATCH, epochs=1, seed=self.seed, order="list").finish()
            self.assertEqual(result["epochs"], {0: list(range(self.SAMPLES))})

    def test_another_seed_or_epoch_gives_other_orders_and_pixels(self):
        with self.serve() as server:
            first = pictures(server, seed=str(self.seed), epochs=2)
            again = pictures(server, seed=str(self.seed), epochs=2)
            other = pictures(server, seed=str(self.seed + 1), epochs=2)
        self.assertEqual(list(first.items()), list(again.items()))
        self.assertEqual(list(other), [(epoch, number) for epoch, ids in
                                       order(self.seed + 1, 2, range(self.SAMPLES)).items()
                                       for number in ids])
        same_epoch = sum(first[0, number] == first[1, number] for number in range(self.SAMPLES))
        same_seed = sum(first[key] == other[key] for key in first)
        self.assertEqual((same_epoch, same_seed), (0, 0), "crops are drawn anew")
        orders = [[number for at, number in taken if at == epoch] for taken in (first, other)
                  for epoch in (0, 1)]
        self.assertEqual(len(set(map(tuple, orders))), 4)
        for one in orders:
            self.assertEqual(sorted(one), list(range(self.SAMPLES)))

    def test_the_server_draws_a_seed_and_tells_it(self):
        with self.serve() as server:
            taken, seed = take(server, order="seeded", epochs=2)
            other, other_seed = take(server, order="seeded", epochs=2)
            result = server.read(batch=BATCH, epochs=2, order="seeded").finish()
        self.assertNotEqual(seed, other_seed)
        self.assertNotEqual(ids_of(taken), ids_of(other))
        self.assertEqual(ids_of(taken), order(seed, 2, range(self.SAMPLES)))
        self.assertEqual(result["epochs"], order(int(result["seed"]), 2, range(self.SAMPLES)))
        with self.serve() as server:
            self.assertEqual(take(server, seed=str(seed), epochs=2), (taken, seed))

    def test_parts(self):
        parts = [[[0, 1], [5, 50], [200, 210]], [[10, 15]], [[100, 300]], [[299, 300]]]
        with self.serve() as server:
            for ranges in parts:
                ids = [number for lo, hi in ranges for number in range(lo, hi)]
                taken, _ = take(server, ranges, seed=str(self.seed), batch_size=7)
                self.assertEqual(ids_of(taken), order(self.seed, self.EPOCHS, ids), ranges)
            #  A sample's pixels are the same in any part: only its place is another.
            whole = pictures(server, seed=str(self.seed), epochs=1)
            part = pictures(server, seed=str(self.seed), epochs=1, ranges=[[100, 130]])
            self.assertEqual(part, {key: whole[key] for key in part})
            taken, _ = take(server, seed=str(self.seed), drop_last=True)
            self.assertEqual(taken, {epoch: batches[:9] for epoch, batches in self.reference.items()})

    def test_what_is_not_random_is_shared(self):
        with self.serve(cache="80M") as server:
            shared = server.read(batch=BATCH, epochs=1, recipe="eval").finish()
            self.assert_epochs(shared, 1)
            taken, _ = take(server, seed=str(self.seed), pipeline="eval", epochs=2)
            self.assertEqual(ids_of(taken), order(self.seed, 2, range(self.SAMPLES)))
            self.assertEqual(server.status()["prepared"], self.SAMPLES)
            #  And what is random is not: each epoch of each job prepares its own.
            jobs = [server.read(batch=BATCH, epochs=2, seed=self.seed),
                    server.read(batch=BATCH, epochs=2, seed=self.seed)]
            self.assertEqual(*(job.finish()["checksum"] for job in jobs))
            self.assertEqual(server.status()["prepared"], (1 + 2 * 2) * self.SAMPLES)


class SeededBad(SystemTest):
    SAMPLES = 300
    BAD = (0, 1, 77, 78, 150, 223, 299)

    def setUp(self):
        self.copy = tempfile.mkdtemp(prefix="tu-bad-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.copy, ignore_errors=True)
        self.spoilt = os.path.join(self.copy, "train")
        shutil.copytree(self.data, self.spoilt)
        for number in self.BAD:
            with open(os.path.join(self.spoilt, "class_%d" % self.labels[number], "%05d.jpg" % number),
                      "wb") as file:
                file.write(b"\xff\xd8 no picture")
        self.seed = harness.SEED

    def rest(self, epochs, ids=None):
        ids = range(self.SAMPLES) if ids is None else ids
        return {epoch: [number for number in one if number not in self.BAD]
                for epoch, one in order(self.seed, epochs, ids).items()}

    def test_bad_samples_are_left_out_where_they_stand(self):
        with self.serve() as server:
            good = pictures(server, seed=str(self.seed), epochs=2)
        wanted = {epoch: {key: good[key] for key in good if key[0] == epoch and key[1] not in self.BAD}
                  for epoch in (0, 1)}
        #  Found in mid-epoch, with batches on their way: whatever the window and the workers, nothing else
        #  moves.
        for workers, keys in ((1, {}), (3, {"slots": 12}), (2, {"slots": 3, "transport": "inline"})):
            with Server({"train": self.spoilt}, workers=workers) as server:
                taken, _ = take(server, seed=str(self.seed), batch_size=8, **keys)
                self.assertEqual(ids_of(taken), self.rest(3), "found: %d workers, %s" % (workers, keys))
                self.assertEqual(server.status()["bad_samples"], len(self.BAD))
                #  Known before the join.
                known, _ = take(server, seed=str(self.seed), batch_size=8, **keys)
                self.assertEqual(ids_of(known), self.rest(3), "known: %d workers, %s" % (workers, keys))
                again, _ = take(server, seed=str(self.seed), batch_size=8)
                self.assertEqual(again, known)
                self.assertEqual(pictures(server, seed=str(self.seed), epochs=2), {**wanted[0], **wanted[1]})
                part, _ = take(server, [[70, 160]], seed=str(self.seed), batch_size=8)
                self.assertEqual(ids_of(part), self.rest(3, range(70, 160)))


def order_of_pack(folder):
    """The id at each position, from the index as docs/format.md draws it."""
    with open(os.path.join(folder, "index.tureen"), "rb") as file:
        index = file.read()
    offset, size = struct.unpack_from("<QQ", index, 96 + 24 * 10)
    return list(struct.unpack_from("<%dI" % (size // 4), index, offset))


class SeededPool(SystemTest):
    """With a pool, over a pack that does not fit into memory."""
    SAMPLES = 600
    POOL = 40

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.seed = harness.SEED * 104729 + 2**62
        cls.root = tempfile.mkdtemp(prefix="tu-pool-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.packed = os.path.join(cls.root, "pack")
        done = harness.run("pack", "--quiet", cls.data, cls.packed)
        assert done.returncode == 0, done.stderr
        cls.order = order_of_pack(cls.packed)
        assert sorted(cls.order) == list(range(cls.SAMPLES)) != cls.order
        #  Of the samples with where their rows begin.
        cls.bytes = json.loads(harness.run("verify", "--json", cls.packed).stdout)["bytes"]
        cls.raw = str(cls.bytes // 2)

    def serve_pack(self, **options):
        return Server({"train": self.packed}, **options, arguments=["--raw", self.raw])

    def wanted(self, epochs, pool=POOL, ids=None):
        data = set(range(self.SAMPLES) if ids is None else ids)
        return {epoch: stream_order(self.seed, epoch, self.order, data, pool) for epoch in range(epochs)}

    def test_pieces_are_read_once_and_the_order_is_the_described_one(self):
        with self.serve_pack() as server:
            taken, _ = take(server, seed=str(self.seed), pool=self.POOL)
            self.assertEqual(ids_of(taken), self.wanted(3))
            status = server.status()["datasets"][0]["pack"]
            #  A read a piece, and a few more where one was still there from the epoch before, or a read was
            #  too large.
            self.assertLess(status["reads"], 3 * self.SAMPLES / 8 * 1.3)
            self.assertLess(status["bytes_handed"], 3 * self.bytes * 1.001)
            #  Blocks at the ends of each read are counted.
            self.assertLess(status["bytes_read"], 3 * self.bytes + status["reads"] * 2 * 4096)
            for batches in taken.values():
                for ids, _, labels in batches:
                    self.assertEqual(list(labels), [self.labels[number] for number in ids])

    def test_the_same_beside_others_with_all_clients(self):
        with self.serve_pack(workers=1) as server:
            reference, _ = take(server, seed=str(self.seed), pool=self.POOL)
        with self.serve_pack(workers=3, cache="3M") as server:
            crowd = [server.read(batch=17, epochs=0, rate=200),
                     server.read(batch=64, epochs=0, rate=200, subset="100:300"),
                     server.read(batch=BATCH, epochs=0, seed=self.seed, rate=200)]
            wait_until("the others run", lambda: all(job.delivered() > 60 for job in crowd))
            for keys in ({"transport": "inline"}, {"slots": 9}):
                self.assertEqual(take(server, seed=str(self.seed), pool=self.POOL, **keys)[0], reference,
                                 keys)
            #  One after the other: each has memory of its own.
            result = server.read("--pool", str(self.POOL), batch=BATCH, epochs=2, seed=self.seed).finish()
            self.assertEqual(result["epochs"], self.wanted(2))
            result = server.loader(dataset="train", batch_size=BATCH, epochs=2, seed=self.seed,
                                   pool=self.POOL, labels=self.labels).finish()
            self.assertEqual((result["epochs"], result["wrong_labels"]), (self.wanted(2), 0))

    def test_parts_and_other_pools(self):
        parts = [[[0, 1], [5, 50], [200, 210]], [[10, 15]], [[100, 600]]]
        with self.serve_pack() as server:
            for ranges in parts:
                ids = [number for lo, hi in ranges for number in range(lo, hi)]
                taken, _ = take(server, ranges, seed=str(self.seed), batch_size=7, pool=self.POOL)
                self.assertEqual(ids_of(taken), self.wanted(3, ids=ids), ranges)
            taken, _ = take(server, seed=str(self.seed), pool=8, epochs=2)
            self.assertEqual(ids_of(taken), self.wanted(2, pool=8))
            taken, _ = take(server, seed=str(self.seed), epochs=1)
            self.assertEqual(ids_of(taken), order(self.seed, 1, range(self.SAMPLES)),
                             "without a pool, of a pack")

    def test_refusals(self):
        with self.serve_pack() as server:
            answer = harness.run("read", "--connect", server.endpoint, "--dataset", "train", "--order",
                                 "seeded", "--pool", "600")
            self.assertEqual(answer.returncode, 1)
            self.assertRegex(answer.stderr, "pool: 600 samples of 'train' .* start the server with --raw "
                             "[0-9]+")
        with self.serve() as server:
            answer = harness.run("read", "--connect", server.endpoint, "--dataset", "train", "--seed", "1",
                                 "--pool", "600")
            self.assertEqual(answer.returncode, 1)
            self.assertIn("pool: data set 'train' is no pack", answer.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
