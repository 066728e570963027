"""What Kubernetes does with the manifests of share/kubernetes, as far as Tureen can tell: a folder with a
kustomization becomes objects, and a pod's containers become processes with their volumes, user, capabilities,
environment and read-only root.

A container is made of its parts, by unshare, mount and setpriv, which need root.  Not played: scheduling,
limits, probes by time, and images, in place of which the containers see this machine's programs.
"""
import copy
import json
import os
import subprocess
import sys

import harness

try:
    import yaml
except ImportError as missing:
    print("=" * 78 + "\nSKIPPED, nothing was tested: %s (apt install python3-yaml)\n" % missing + "=" * 78,
          flush=True)
    sys.exit(harness.SKIP)

#  By what the elements of a list are known, where a patch changes single ones.
LIST_KEYS = ("mountPath", "containerPort", "name")


#   ---- kustomize

def documents(path):
    with open(path, encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def merge(base, patch):
    """A strategic merge: as base, with what the patch says."""
    if isinstance(base, dict) and isinstance(patch, dict):
        merged = dict(base)
        for key, value in patch.items():
            merged[key] = merge(merged.get(key), value)
            if merged[key] is None:
                del merged[key]
        return merged
    if isinstance(base, list) and isinstance(patch, list) and all(isinstance(each, dict) for each in base):
        key = next((key for key in LIST_KEYS if all(key in each for each in base + patch)), None)
        if key is not None:
            changed = {each[key]: each for each in patch}
            merged = [merge(each, changed.pop(each[key], each)) for each in base]
            return merged + [each for each in patch if each[key] in changed]
    return copy.deepcopy(patch)


def kustomize(folder):
    """The objects of a folder by kind and name; Secrets with the paths of their files."""
    config, = documents(os.path.join(folder, "kustomization.yaml"))
    objects = {}
    for resource in config["resources"]:
        path = os.path.join(folder, resource)
        if os.path.isdir(path):
            objects.update(kustomize(path))
        else:
            objects.update({(each["kind"], each["metadata"]["name"]): each for each in documents(path)})
    for patch in config.get("patches", []):
        if "path" in patch:
            for change in documents(os.path.join(folder, patch["path"])):
                key = change["kind"], change["metadata"]["name"]
                objects[key] = merge(objects[key], change)
        else:
            target = objects[patch["target"]["kind"], patch["target"]["name"]]
            for change in json.loads(patch["patch"]):
                assert change["op"] == "add" and change["path"].endswith("/-"), "only appending is known here"
                for step in change["path"].split("/")[1:-1]:
                    target = target[int(step) if step.isdigit() else step]
                target.append(change["value"])
    for secret in config.get("secretGenerator", []):
        files = [entry.split("=", 1) if "=" in entry else (os.path.basename(entry), entry)
                 for entry in secret["files"]]
        objects["Secret", secret["name"]] = {name: os.path.join(folder, path) for name, path in files}
    return objects


#   ---- pods

#  The root is a file system of its own: this machine's programs, and the volumes.
ROOT = """
root=$1; user=$2; groups=$3; capabilities=$4; shift 4
mount -t tmpfs -o mode=0755 tmpfs "$root"
mkdir "$root/proc" "$root/dev" "$root/opt" "$root/opt/bin"
for name in usr etc bin sbin lib lib64; do
    if [ -L "/$name" ]; then
        cp -P "/$name" "$root/"
    elif [ -d "/$name" ]; then
        mkdir "$root/$name"; mount --bind -o ro "/$name" "$root/$name"
    fi
done
mount -t proc proc "$root/proc"
for name in null zero full random urandom; do
    touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"
done
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then
        mkdir -p "$root$2"
    elif [ ! -e "$root$2" ]; then
        touch "$root$2"
    fi
    mount --bind "$1" "$root$2"
    [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
    shift 3
done
shift
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$user" $groups --bounding-set "$capabilities" \
    --inh-caps=-all --no-new-privs "$@"
"""


class Pod:
    """Its containers on one node.

    folder      of this pod alone
    volumes     by name, for those that are not made here (hostPath, claims): a folder of this machine
    images      what is in the images beside this machine's programs: path in the container: path here
    on          a command that executes another one on the node
    """

    def __init__(self, template, folder, volumes, secrets, images, on=(), node_rank=None):
        self.spec, self.folder, self.images = template["spec"], folder, images
        self.on, self.node_rank = list(on), node_rank
        self._secrets, self._volumes = secrets, dict(volumes)
        os.makedirs(os.path.join(folder, "root"))
        for volume in self.spec["volumes"]:
            if volume["name"] not in self._volumes:
                self._volumes[volume["name"]] = self._volume(volume)

    def _volume(self, volume):
        path = os.path.join(self.folder, "volume-" + volume["name"])
        os.mkdir(path)
        group = self.spec["securityContext"]["fsGroup"]
        if "secret" in volume:
            self._fill(path, self._secrets[volume["secret"]["secretName"]], volume["secret"]["defaultMode"])
        else:
            assert "emptyDir" in volume, volume
            os.chmod(path, 0o2777)
        os.chown(path, 0, group)
        return path

    def _fill(self, path, files, mode):
        """As the kubelet does: links to links to the files, which are root's."""
        data = os.path.join(path, "..2026")
        os.mkdir(data, 0o755)
        os.symlink("..2026", os.path.join(path, "..data"))
        for name, source in files.items():
            with open(source, "rb") as file, open(os.path.join(data, name), "wb") as copied:
                copied.write(file.read())
            os.chmod(os.path.join(data, name), mode)
            os.chown(os.path.join(data, name), 0, self.spec["securityContext"]["fsGroup"])
            os.symlink("..data/" + name, os.path.join(path, name))

    def container(self, name):
        return next(each for each in self.spec.get("initContainers", []) + self.spec["containers"]
                    if each["name"] == name)

    def command(self, container, words):
        """What executes the words in the container."""
        rights, pods = container["securityContext"], self.spec["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"]["drop"] == ["ALL"]
        user = rights.get("runAsUser", pods["runAsUser"])
        assert (user == 0) == (not rights.get("runAsNonRoot", pods["runAsNonRoot"]))
        added = rights["capabilities"].get("add", [])
        capabilities = ",".join(["-all"] + ["+" + each.lower() for each in added])
        mounts = [word for path, source in self.images.items() for word in (source, path, "ro")]
        for mount in container["volumeMounts"]:
            mounts += [self._volumes[mount["name"]], mount["mountPath"],
                       "ro" if mount.get("readOnly") else "rw"]
        environment = self.environment(container)
        return [*self.on, "unshare", "--mount", "--pid", "--ipc", "--fork", "sh", "-ec", ROOT,
                "container", os.path.join(self.folder, "root"), str(user),
                "--groups=%d" % pods["fsGroup"], capabilities, *mounts, "--", "env", "-i",
                *("%s=%s" % pair for pair in environment.items()), *words]

    def environment(self, container):
        found = {"PATH": "/opt/bin:/usr/bin:/bin", "HOME": "/"}
        for entry in container.get("env", []):
            if "valueFrom" in entry:
                assert "job-completion-index" in entry["valueFrom"]["fieldRef"]["fieldPath"]
                found[entry["name"]] = str(self.node_rank)
            else:
                found[entry["name"]] = entry["value"]
        return found

    def words(self, container):
        environment = self.environment(container)
        words = []
        for word in container["command"] + container["args"]:
            for name, value in environment.items():
                word = word.replace("$(%s)" % name, value)
            words.append(word)
        return words

    def start(self, name, log):
        """The init containers, one after the other, then the container."""
        for each in self.spec.get("initContainers", []):
            subprocess.run(self.command(each, self.words(each)), check=True, timeout=harness.PATIENCE)
        container = self.container(name)
        with open(log, "ab") as output:
            return subprocess.Popen(self.command(container, self.words(container)), stdout=output,
                                    stderr=subprocess.STDOUT)

    @staticmethod
    def signal(process, number):
        """To the container's first process.  (`unshare --kill-child` is of no help: setpriv undoes it.)"""
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            for pid in file.read().split():
                os.kill(int(pid), number)

    def execute(self, name, words):
        """As a probe of the container; its exit status."""
        return subprocess.run(self.command(self.container(name), words), timeout=harness.PATIENCE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
