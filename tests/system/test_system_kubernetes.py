"""The manifests of share/kubernetes: what they say agrees with itself and with the program, and their pods,
made of namespaces, train."""
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
import pods
from harness import SOURCE, TUREEN, wait_until
from network import Network

FOLDER = os.path.join(SOURCE, "share", "kubernetes")
NODES = ["node0", "node1"]
USER, SAMPLES, EPOCHS = 1000, 301, 3
REFUSAL = Network.refusal()
#  Of an image with PyTorch; without the two options, PyTorch 1.13 on Python 3.11 does not start.
TORCHRUN = """#!/bin/sh
export PYTHONPATH=/opt/python PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 -m torch.distributed.run --redirects 1 --tee 1 "$@"
"""


def commands(words):
    """The commands of tureen that a container's words have: (command, its options)."""
    if words[0] == "tureen":
        yield words[1], [word.split("=")[0] for word in words[2:] if word.startswith("--")]
    for word in words:
        for command, rest in re.findall(r"\btureen (serve|status|work|drain|key)\b([^\n;|&]*)", word):
            yield command, re.findall(r"(?<!\S)--[a-z-]+", rest)


def is_known(command, option):
    return option in re.findall(r"--[a-z-]+", harness.run(command, "--help").stdout)


def templates(objects):
    return {name: each["spec"]["template"] for (kind, name), each in objects.items()
            if kind in ("DaemonSet", "Deployment", "Job")}


class Manifests(unittest.TestCase):
    def setUp(self):
        self.objects = {name: pods.kustomize(os.path.join(FOLDER, name)) for name in ("base", "workers")}

    def test_options_exist(self):
        seen = set()
        for objects in self.objects.values():
            for name, template in templates(objects).items():
                spec = template["spec"]
                for container in spec.get("initContainers", []) + spec["containers"]:
                    probes = [probe["exec"]["command"] for key, probe in container.items()
                              if key.endswith("Probe") and "exec" in probe]
                    for words in [container["command"] + container.get("args", []), *probes]:
                        for command, options in commands(words):
                            seen.add(command)
                            for option in options:
                                self.assertTrue(is_known(command, option), (name, command, option))
        self.assertEqual(seen, {"serve", "status", "work"})
        #  In the worker's script options stand in the list that it makes.
        self.assertTrue(is_known("work", "--connect") and is_known("work", "--server-key"))

    def test_what_belongs_together_agrees(self):
        """Users, the folder of the node, services and their ports, Secrets and their files."""
        for which, objects in self.objects.items():
            found = templates(objects)
            users = {each["spec"]["securityContext"]["runAsUser"] for each in found.values()}
            self.assertEqual(users, {USER})
            for template in found.values():
                spec = template["spec"]
                volumes = {each["name"]: each for each in spec["volumes"]}
                for container in spec.get("initContainers", []) + spec["containers"]:
                    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
                    self.assertLessEqual({each["name"] for each in mounts.values()}, set(volumes))
                    if "/run/tureen" in mounts:
                        self.assertEqual(volumes["run"]["hostPath"]["path"], "/run/tureen")
                    if "/secret" in mounts:
                        self.assert_files(objects, volumes["secret"]["secret"]["secretName"], container)
            labels = [each["metadata"]["labels"] for each in found.values()]
            for (kind, name), each in objects.items():
                if kind == "Service":
                    self.assertIn(each["spec"]["selector"], labels, name)
            training = found["training"]["spec"]["containers"][0]
            environment = {each["name"]: each.get("value") for each in training["env"]}
            server = found["tureen"]["spec"]["containers"][0]
            listen = next(word.split("=", 1)[1] for word in server["args"] if word.startswith("--listen="))
            self.assertEqual(listen.split(",")[0], environment["TUREEN_ENDPOINT"])
            for probe in ("startupProbe", "livenessProbe"):
                self.assertIn("--connect=" + environment["TUREEN_ENDPOINT"], server[probe]["exec"]["command"])
            if which == "workers":
                port = int(listen.split(":")[-1])
                self.assertEqual(listen.split(",")[1:], ["tcp://0.0.0.0:%d" % port])
                service = objects["Service", "tureen-servers"]["spec"]
                self.assertEqual([each["port"] for each in service["ports"]], [port])
                self.assertEqual([{"name": "tureen", "containerPort": port}], server["ports"])
                worker = found["tureen-workers"]["spec"]["containers"][0]
                self.assertIn(":%d" % port, " ".join(worker["args"]))

    def assert_files(self, objects, name, container):
        text = " ".join(container["args"])
        self.assertEqual(set(re.findall(r"/secret/([\w-]+)", text)), set(objects["Secret", name]))


@unittest.skipIf(REFUSAL, "no pods here: %s" % REFUSAL)
@unittest.skipIf(importlib.util.find_spec("torch") is None, "no PyTorch here")
class Pods(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        os.chmod(self.folder, 0o755)
        harness.make_folder(self.path("data", "train"), SAMPLES, classes=4, seed=harness.SEED)
        shutil.copytree(FOLDER, self.path("kubernetes"))
        shutil.copytree(os.path.join(SOURCE, "examples"), self.path("app"))
        shutil.copy(self.path("app", "nodes.py"), self.path("app", "train.py"))
        shutil.copytree(os.path.join(SOURCE, "clients", "python"), self.path("python"))
        for name in ("data", "app", "python"):
            subprocess.run(["chmod", "-R", "a+rX", self.path(name)], check=True)
        os.mkdir(self.path("checkpoints"))
        os.chown(self.path("checkpoints"), USER, USER)
        for name in NODES:
            os.makedirs(self.path(name, "run"))
        with open(self.path("torchrun"), "w") as file:
            file.write(TORCHRUN)
        os.chmod(self.path("torchrun"), 0o755)
        self.network = Network(NODES)
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        self.processes = []
        self.addCleanup(self.end)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                pods.Pod.signal(process, signal.SIGKILL)
                process.wait()

    def log(self, name):
        with open(self.path(name + ".log"), errors="replace") as file:
            return file.read()

    def logs(self, name):
        return "\n".join(self.log("%s-%s" % (name, node)) for node in NODES)

    def pod(self, name, node, number):
        template = templates(self.objects)[name]
        secrets = {each: files for (kind, each), files in self.objects.items() if kind == "Secret"}
        hosts = self.path("hosts-" + node)
        here = self.network.address(node)
        with open(hosts, "w") as file:
            file.write("127.0.0.1 localhost\n%s %s\n" % (here, os.uname().nodename))
            file.write("%s training-0.training\n" % self.network.address(NODES[0]))
            file.write("".join("%s tureen-servers\n" % self.network.address(each) for each in NODES))
        images = {"/opt/bin/tureen": TUREEN, "/opt/bin/torchrun": self.path("torchrun"),
                  "/app": self.path("app"), "/opt/python": self.path("python"), "/etc/hosts": hosts}
        volumes = {"run": self.path(node, "run"), "data": self.path("data"),
                   "checkpoints": self.path("checkpoints")}
        return pods.Pod(template, self.path(node, name), volumes, secrets, images, self.network.on(node),
                        number)

    def start(self, name, container, number):
        """On one node; its pod."""
        node = NODES[number]
        pod = self.pod(name, node, number)
        self.processes.append(pod.start(container, self.path("%s-%s.log" % (name, node))))
        return pod

    def probe(self, pod, container, kind):
        probe = pod.container(container)[kind]
        return pod.execute(container, probe["exec"]["command"])

    def train(self):
        for number in range(len(NODES)):
            self.start("training", "training", number)
        for process in self.processes[-len(NODES):]:
            status = process.wait(2 * harness.PATIENCE)
            self.assertEqual(status, 0, self.logs("training") + self.logs("tureen"))
        self.assertIn("%d epochs: the model has learned from each sample once" % EPOCHS,
                      self.logs("training"))
        for number, node in enumerate(NODES):
            self.assertRegex(self.log("tureen-" + node),
                             r"joined: train, node %d of 2, 2 ranks, .*, ring" % number)

    def stop_servers(self, servers):
        """As the kubelet does; they leave nothing."""
        for server in servers:
            pods.Pod.signal(server, signal.SIGTERM)
        for server in servers:
            self.assertEqual(server.wait(harness.PATIENCE), 0)
        for node in NODES:
            self.assertEqual(os.listdir(self.path(node, "run")), [])

    def test_training(self):
        self.objects = pods.kustomize(self.path("kubernetes", "base"))
        self.small()
        servers = [self.start("tureen", "server", number) for number in range(len(NODES))]
        for pod in servers:
            wait_until("the startup probe", lambda: self.probe(pod, "server", "startupProbe") == 0)
        status = os.stat(self.path(NODES[0], "run"))
        self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o777), (USER, USER, 0o700))
        self.assertEqual(self.probe(servers[0], "server", "livenessProbe"), 0)
        self.train()
        #  A new pod on the same node: the folder is there.
        self.stop_servers(self.processes[:len(NODES)])
        shutil.rmtree(self.path(NODES[0], "tureen"))
        again = self.start("tureen", "server", 0)
        wait_until("the startup probe", lambda: self.probe(again, "server", "startupProbe") == 0)

    def test_workers(self):
        environment = dict(os.environ, PATH=os.path.dirname(TUREEN) + ":" + os.environ["PATH"])
        subprocess.run(["sh", self.path("kubernetes", "workers", "make_keys.sh")], check=True,
                       env=environment, stdout=subprocess.DEVNULL)
        self.objects = pods.kustomize(self.path("kubernetes", "workers"))
        self.small()
        servers = [self.start("tureen", "server", number) for number in range(len(NODES))]
        for pod in servers:
            wait_until("the startup probe", lambda: self.probe(pod, "server", "startupProbe") == 0)
        worker = self.start("tureen-workers", "worker", 1)
        wait_until("both have a worker", lambda: all(re.search("worker .*lends", self.log("tureen-" + node))
                                                     for node in NODES))
        self.assertEqual(self.probe(worker, "worker", "livenessProbe"), 0)
        self.train()
        #  A server that has come or gone: the worker is to begin again.
        with open(self.path("hosts-" + NODES[1]), "a") as file:
            file.write("10.0.0.77 tureen-servers\n")
        self.assertEqual(self.probe(worker, "worker", "livenessProbe"), 1)
        self.stop_servers(self.processes[:len(NODES)])

    def small(self):
        for template in templates(self.objects).values():
            for container in template["spec"]["containers"]:
                container["args"] = [re.sub("--memory=.*", "--memory=64M", word)
                                     for word in container["args"]]


if __name__ == "__main__":
    unittest.main()
