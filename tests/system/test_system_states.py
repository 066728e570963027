"""Going on: servers and clients that are killed, and states that one client wrote and another one reads."""
import json
import os
import signal
import subprocess
import sys
import unittest

import harness
from harness import ScriptJob, Server, SystemTest, TUREEN, parse_ids, wait_until

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402

#   As little work as there can be: what is measured here is where samples come, not what they are.
PIPELINE = '[{"op": "decode"}, {"op": "resize", "size": [16, 16]}]'
BATCH, EPOCHS = 8, 2


class States(SystemTest):
    SAMPLES = 160

    def read(self, server, name, *arguments, order="shared", rate=0, epochs=EPOCHS):
        """A job with its files in the server's folder, which may be started again with the same name."""
        ids, state = self.files(server, name)
        command = [TUREEN, "read", "--connect", server.endpoint, "--dataset", "train", "--batch", str(BATCH),
                   "--epochs", str(epochs), "--pipeline", PIPELINE, "--ids", ids, "--state", state, "--name",
                   name, "--order", order]
        if rate:
            command += ["--rate", str(rate)]
        return self.add(subprocess.Popen(command + list(arguments), stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, universal_newlines=True,
                                         env=server.environment))

    def add(self, process):
        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    @staticmethod
    def files(server, name):
        return os.path.join(server.folder, name + ".ids"), os.path.join(server.folder, name + ".state")

    def delivered(self, server, name):
        path = self.files(server, name)[0]
        if not os.path.exists(path):
            return 0
        finished, unfinished = parse_ids(path)
        return sum(map(len, finished.values())) + len(unfinished or [])

    def finish(self, process):
        _, errors = process.communicate(timeout=4 * harness.PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        return errors

    def assert_whole(self, server, name, ids=None):
        """The file has every epoch once, and nothing else."""
        finished, unfinished = parse_ids(self.files(server, name)[0])
        self.assertIsNone(unfinished)
        self.assert_epochs({"epochs": finished}, EPOCHS, ids)
        with open(self.files(server, name)[1]) as file:
            self.assertEqual(json.load(file)["epoch"], str(EPOCHS))
        return finished

    def test_the_server_is_killed_under_its_jobs(self):
        """Each job goes on by itself: exactly once, and the seeded one in the very order of a run that
        nothing befell."""
        random = harness.seeded("killed server")
        listed = [random.randrange(self.SAMPLES) for _ in range(self.SAMPLES)]
        with Server({"train": self.data}, expect_clean=False) as server:
            path = os.path.join(server.folder, "list")
            with open(path, "w") as file:
                file.writelines("%d\n" % number for number in listed)
            calm = self.read(server, "calm", "--seed", "5", order="seeded")
            self.finish(calm)
            jobs = {"shared": self.read(server, "shared", rate=150),
                    "inline": self.read(server, "inline", "--inline", rate=120),
                    "seeded": self.read(server, "seeded", "--seed", "5", order="seeded", rate=150),
                    "list": self.read(server, "list", "--list", path, order="list", rate=150)}
            wait_until("all have begun", lambda: all(self.delivered(server, name) for name in jobs))
            survivors = set()
            for _ in range(2):
                wanted = self.delivered(server, "shared") + random.randrange(BATCH, 6 * BATCH)
                wait_until("the job goes on", lambda: self.delivered(server, "shared") >= wanted
                           or jobs["shared"].poll() is not None)
                server.kill()
                #   A job that has not received its whole last epoch needs a server.
                survivors.update(name for name in jobs if self.delivered(server, name) < self.SAMPLES)
                server.start()
            for name, job in jobs.items():
                errors = self.finish(job)
                if name in survivors:
                    self.assertIn("the server is back after", errors, name)
            for name in ("shared", "inline"):
                self.assert_whole(server, name)
            self.assertEqual(self.assert_whole(server, "seeded"), self.assert_whole(server, "calm"))
            for ids in self.assert_whole(server, "list", listed).values():
                self.assertEqual(ids, listed)
            wait_until("all have left", lambda: not server.job_names())
            server.stop()

    def test_a_job_is_killed_again_and_again(self):
        """Started with the same files each time, under one name that its own ghost may still have."""
        random = harness.seeded("killed client")
        with Server({"train": self.data}) as server:
            for kill in range(5):
                job = self.read(server, "trial", "--job", "trial", "--state-every", str(1 + kill % 3),
                                rate=400)
                if kill < 4:
                    wanted = self.delivered(server, "trial") + random.randrange(BATCH * 4, BATCH * 8)
                    wait_until("ids come", lambda: self.delivered(server, "trial") >= wanted
                               or job.poll() is not None)
                    job.kill()
                    job.communicate()
            self.finish(job)
            self.assert_whole(server, "trial")

    def trained_over_two_deaths(self, state_of):
        """What a job trains that takes batches ahead, and is killed behind checkpoints in both epochs."""
        steps, ahead = self.SAMPLES // BATCH, 2
        with Server({"train": self.data}) as server:
            path = os.path.join(server.folder, "checkpoint")
            for halt in (steps // 3, steps, 0):
                before = os.stat(path).st_ino if os.path.exists(path) else None
                job = server._add(ScriptJob(server, "prefetching_job.py", dict(
                    dataset="train", batch_size=BATCH, epochs=EPOCHS, pipeline=json.loads(PIPELINE), slots=6,
                    job="trial", state_of=state_of, file=path, ahead=ahead, halt=halt,
                    timeout=harness.PATIENCE)))
                if halt:
                    wait_until("the checkpoint is written", lambda: job.process.poll() is not None
                               or os.path.exists(path) and os.stat(path).st_ino != before)
                    job.signal(signal.SIGKILL)
                    self.assertEqual(job.wait(), -signal.SIGKILL, job.texts())
            return job.finish()

    def test_a_job_that_takes_batches_ahead_is_killed(self):
        """It reports what it has trained: every sample comes once an epoch."""
        self.assert_epochs(self.trained_over_two_deaths("trained"), EPOCHS)

    def test_a_job_that_takes_batches_ahead_and_reports_nothing(self):
        """What it had taken at each checkpoint and not trained is lost."""
        epochs = self.trained_over_two_deaths("given")["epochs"]
        self.assertEqual({epoch: (len(ids), len(set(ids))) for epoch, ids in epochs.items()},
                         {epoch: (self.SAMPLES - 2 * BATCH,) * 2 for epoch in range(EPOCHS)})

    def test_one_name_is_one_run(self):
        """Another run under the name of one that is there is refused; the same state twice is a fork."""
        with Server({"train": self.data}) as server:
            first = self.read(server, "first", "--job", "trial", "--state-every", "1", rate=40, epochs=10**6)
            wait_until("ids come", lambda: self.delivered(server, "first") >= BATCH)
            second = self.read(server, "second", "--job", "trial")
            _, errors = second.communicate(timeout=harness.PATIENCE)
            self.assertEqual(second.returncode, 1, errors)
            self.assertIn("job_taken", errors)
            ids, state = self.files(server, "second")
            with open(self.files(server, "first")[1]) as file, open(state, "w") as copy:
                copy.write(file.read())
            second = self.read(server, "second", rate=40, epochs=10**6)
            wait_until("the fork goes on", lambda: self.delivered(server, "second") >= BATCH)
            for job, says in ((second, "goes on elsewhere"), (first, "")):
                job.send_signal(signal.SIGTERM)
                _, errors = job.communicate(timeout=harness.PATIENCE)
                self.assertEqual(job.returncode, 128 + signal.SIGTERM)
                self.assertIn(says, errors)

    def loader(self, server, **options):
        loader = tureen.Loader(dataset="train", batch_size=BATCH, epochs=EPOCHS,
                               pipeline=json.loads(PIPELINE), endpoint=server.endpoint,
                               timeout=harness.PATIENCE, **options)
        self.addCleanup(loader.close)
        return loader

    def test_states_go_from_one_client_to_the_other(self):
        """`tureen read` stops, Python goes on; and the other way: of each the epoch is whole, none twice."""
        for order in ("shared", "seeded"):
            with self.subTest(order=order), Server({"train": self.data}) as server:
                job = self.read(server, "half", order=order, rate=20)
                wait_until("ids come", lambda: self.delivered(server, "half") >= 2 * BATCH)
                job.send_signal(signal.SIGTERM)
                job.communicate(timeout=harness.PATIENCE)
                finished, unfinished = parse_ids(self.files(server, "half")[0])
                had = {0: list(unfinished)}
                self.assertEqual(finished, {})
                loader = self.loader(server)
                with open(self.files(server, "half")[1]) as file:
                    loader.load_state_dict(json.load(file))
                stop = 0
                for batch in loader:
                    had.setdefault(int(batch.epoch), []).extend(map(int, batch.ids))
                    stop += 1
                    if stop == 5:
                        break
                with open(self.files(server, "rest")[1], "w") as file:
                    json.dump(loader.state_dict(), file)
                loader.close()
                self.finish(self.read(server, "rest", order=order))
                rest, _ = parse_ids(self.files(server, "rest")[0])
                for epoch, ids in rest.items():
                    had.setdefault(epoch, []).extend(ids)
                self.assert_epochs({"epochs": had}, EPOCHS)
                if order == "seeded":
                    with open(self.files(server, "half")[1]) as file:
                        seed = json.load(file)["seed"]
                    self.finish(self.read(server, "whole", "--seed", seed, order=order))
                    self.assertEqual(had, self.assert_whole(server, "whole"))


if __name__ == "__main__":
    unittest.main()
