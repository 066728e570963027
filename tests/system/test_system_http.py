"""HTTP beside a server that trains: figures for people, scripts and Prometheus, to each viewer its own; and
clients that ask much, read slowly, or talk nonsense, of which the jobs notice nothing."""
import contextlib
import gzip
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import harness
from harness import SystemTest, run, wait_until
from test_system_keys import KeyTest

OPERATORS, VISION = "operators-token-1234", "vision-token-12345678"
LINE = re.compile(r'([a-z_]+)(?:\{(.*)\})? (\S+)$')


class Http:
    """What asks a server's port, or its socket file."""

    def __init__(self, port=None, path=None):
        self.port, self.path = port, path

    def connect(self):
        if self.path is None:
            return socket.create_connection(("127.0.0.1", self.port), timeout=harness.PATIENCE)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(harness.PATIENCE)
        connection.connect(self.path)
        return connection

    def ask(self, path, method="GET", body=None, **headers):
        """Status, headers, body."""
        connection = http.client.HTTPConnection("localhost", self.port or 80, timeout=harness.PATIENCE)
        connection.sock = self.connect()
        with contextlib.closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): value
                                                    for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def json(self, path, **headers):
        status, kind, body = self.ask(path, **headers)
        assert status == 200, (status, body)
        assert kind["Content-Type"] == "application/json", kind
        return json.loads(body)

    def metrics(self, **headers):
        """{(name, labels): value}"""
        status, _, body = self.ask("/metrics", **headers)
        assert status == 200, (status, body)
        found = {}
        for line in body.decode().splitlines():
            if not line.startswith("#"):
                name, labels, value = LINE.match(line).groups()
                assert (name, labels) not in found, line
                found[name, labels or ""] = float(value)
        return found


def page_in_browser(folder, address):
    """The page's elements after some seconds, and the lines of the browser's console.  folder: the browser's
    own."""
    browser = shutil.which("chromium")
    if not browser:
        raise unittest.SkipTest("no chromium (apt install chromium)")
    done = subprocess.run(
        [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
         "--enable-logging=stderr", "--user-data-dir=" + os.path.join(folder, "browser"), "--dump-dom",
         address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
        timeout=4 * harness.PATIENCE)
    return (done.stdout.partition("<main>")[2].partition("<script>")[0],
            [line for line in done.stderr.splitlines() if "CONSOLE" in line])


class Shown(SystemTest):
    SAMPLES = 200

    @contextlib.contextmanager
    def watched(self, *arguments, **options):
        port = harness.free_port()
        with self.serve(arguments=("--http", str(port), *arguments), **options) as server:
            self.assertIn("to look at: http://127.0.0.1:%d/\n" % port, server.log())
            yield server, Http(port)

    def test_figures_are_those_of_status(self):
        with self.watched() as (server, http):
            job = server.read(batch=16, epochs=2, name='"quoted" \\ name')
            job.finish()
            standing = server.read(batch=16, epochs=0, rate=64, name="stands")
            waited = "tureen_job_batch_wait_seconds_sum", 'number="2",cause="client"'
            wait_until("a batch has waited for its client", lambda: http.metrics().get(waited, 0) > 0)
            standing.signal(signal.SIGSTOP)     #  nothing is sent once its window is full

            def is_full():
                window = server.job_status("stands")["window"]
                return window["sent_batches"] >= window["slots"] - 1
            wait_until("its window is full", is_full)
            time.sleep(1.1)                     #  what is shown may be a second old
            shown, metrics = http.json("/status.json"), http.metrics()
            status = server.status()
            for key in ("prepared", "delivered", "cache_misses", "jobs_total", "bad_samples"):
                self.assertEqual(shown[key], status[key], key)
            self.assertEqual(metrics["tureen_samples_delivered_total", ""], status["delivered"])
            self.assertEqual(metrics["tureen_job_samples_delivered_total", 'number="gone"'], 2 * self.SAMPLES)
            labels = 'number="2",name="stands",dataset="train"'
            self.assertEqual(metrics["tureen_job_samples_delivered_total", labels],
                             server.job_status("stands")["delivered_samples"])
            self.assertEqual(metrics["tureen_dataset_samples", 'dataset="train"'], self.SAMPLES)
            for cause in ("draw", "read", "memory", "decode", "copy", "client"):
                count = metrics["tureen_batch_wait_seconds_count", 'cause="%s"' % cause]
                sent = server.job_status("stands")["delivered_samples"] // 16
                self.assertEqual(count, 2 * -(-self.SAMPLES // 16) + sent)
                self.assertEqual(count, metrics["tureen_batch_wait_seconds_bucket",
                                                'cause="%s",le="+Inf"' % cause])
                #  Jobs' own add up to that, with those that have gone in one series.
                gone, own = (metrics.get(("tureen_job_batch_wait_seconds_count",
                                          'number="%s",cause="%s"' % (number, cause)))
                             for number in ("gone", "2"))
                self.assertEqual(gone, None if cause == "draw" else 2 * -(-self.SAMPLES // 16))
                self.assertIn(own, (sent, None))
            self.assertGreater(metrics[waited], 0)
            standing.signal(signal.SIGCONT)
            standing.signal(signal.SIGINT)
            standing.wait()

    def test_prometheus_takes_them(self):
        if not shutil.which("promtool"):
            self.skipTest("no promtool (apt install prometheus)")
        with self.watched() as (server, http):
            server.read(batch=16, epochs=1, name="odd {} = , name").finish()
            _, kind, body = http.ask("/metrics")
            self.assertEqual(kind["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            done = subprocess.run(["promtool", "check", "metrics"], input=body, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            self.assertEqual((done.returncode, done.stdout), (0, b""))
        rules = os.path.join(harness.SOURCE, "share", "prometheus")
        for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
            done = subprocess.run(["promtool", *arguments], cwd=rules, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, universal_newlines=True)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_dashboard_asks_for_what_there_is(self):
        with open(os.path.join(harness.SOURCE, "share", "grafana", "tureen.json")) as file:
            asked = set(re.findall(r"tureen_[a-z_]+", " ".join(
                target["expr"] for panel in json.load(file)["panels"] for target in panel["targets"])))
        with open(os.path.join(harness.SOURCE, "share", "prometheus", "alerts.yml")) as file:
            asked |= set(re.findall(r"tureen_[a-z_]+", file.read()))
        with open(os.path.join(harness.SOURCE, "server", "http", "metrics.c")) as file:
            text = file.read()
        there = set(re.findall(r'(?:GAUGE|COUNTER)(?:_BY)? \("([a-z_]+)"', text))
        there |= set(re.findall(r'"([a-z_]+)", (?:true|false|"histogram"|"counter"|"gauge")', text))
        self.assertGreater(len(asked), 15)
        for name in asked:
            self.assertIn(re.sub("_(total|bucket|sum|count)$", "", name[len("tureen_"):]), there)

    def test_open_metrics(self):
        with self.watched() as (server, http):
            _, kind, body = http.ask("/metrics", Accept="application/openmetrics-text; version=1.0.0")
            self.assertEqual(kind["Content-Type"], "application/openmetrics-text; version=1.0.0; "
                                                   "charset=utf-8")
            self.assertTrue(body.endswith(b"\n# EOF\n"))
            family, kinds = None, {}
            for line in body.decode().splitlines()[:-1]:
                if line.startswith("# TYPE "):
                    _, _, family, kind = line.split()
                    self.assertNotIn(family, kinds)         # the samples of a family lie together
                    kinds[family] = kind
                elif not line.startswith("# HELP "):
                    name, labels, _ = LINE.match(line).groups()
                    suffixes = {"counter": ["_total"], "gauge": [""],
                                "histogram": ["_bucket", "_sum", "_count"]}[kinds[family]]
                    self.assertIn(name, [family + suffix for suffix in suffixes])
                    for bound in re.findall('le="([^"]*)"', labels or ""):
                        self.assertRegex(bound, r"\.|^\+Inf$")

    def test_compressed(self):
        """As Prometheus and browsers ask for it: the same, in fewer bytes."""
        with self.watched() as (server, http):
            server.read(batch=16, epochs=1, name="short").finish()
            for path in ("/metrics", "/status.json"):
                _, headers, plain = http.ask(path, Accept_Encoding="gzip;q=0, identity")
                self.assertIsNone(headers["Content-Encoding"])
                status, headers, body = http.ask(path, Accept_Encoding="deflate, gzip")
                self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"))
                self.assertEqual(headers["Vary"], "Accept-Encoding")
                self.assertLess(len(body), len(plain) / 2)
                told = gzip.decompress(body)
                names = [set(re.findall(rb'"[a-z_]+"|tureen_[a-z_]+', text)) for text in (plain, told)]
                self.assertEqual(*names)

    def test_a_request_byte_after_byte(self):
        """It would keep its connection for ever."""
        with self.watched() as (server, http), contextlib.closing(http.connect()) as slow, \
                contextlib.closing(http.connect()) as idle:
            idle.settimeout(60)
            slow.settimeout(4)
            began, head = time.monotonic(), iter("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
                                                 + 100 * "x")

            def is_closed():
                try:
                    slow.sendall(next(head).encode())
                    return slow.recv(1) == b""
                except socket.timeout:
                    return False
                except OSError:
                    return True
            wait_until("it is closed", is_closed)
            self.assertGreater(time.monotonic() - began, 25)
            self.assertEqual(idle.recv(1), b"")             # long ago
            self.assertEqual(http.ask("/healthz")[2], b"ok\n")

    def test_the_last_hour(self):
        with self.watched() as (server, http):
            server.read(batch=16, epochs=0, name="runs", rate=200)
            wait_until("there are points", lambda: len(http.json("/history.json")["times"]) > 2)
            hour = http.json("/history.json")
            self.assertEqual([job["name"] for job in hour["jobs"]], ["runs"])
            self.assertGreater(hour["delivered"][-1], 0)
            one = http.json("/history.json?job=1")
            self.assertGreater(one["consumed"][-1], 50)
            self.assertEqual(http.ask("/history.json?job=99")[0], 404)
            self.assertEqual(http.ask("/history.json?job=nonsense")[0], 404)

    def test_what_is_asked_wrongly(self):
        with self.watched() as (server, http):
            self.assertEqual(http.ask("/nothing")[0], 404)
            self.assertEqual(http.ask("/../etc/passwd")[0], 404)
            status, headers, _ = http.ask("/metrics", method="POST", body="x" * 100000)
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
            self.assertEqual(http.ask("/metrics", method="HEAD")[2], b"")
            self.assertEqual(http.ask("/status.json", Host="evil.example")[0], 403)
            status, headers, body = http.ask("/")
            self.assertEqual(status, 200)
            self.assertLess(len(body), 200000)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertNotRegex(body.decode(), r"(src|href)=.?https?:")
            self.assertEqual(http.ask("/healthz")[2], b"ok\n")

    def test_a_body_with_two_ends(self):
        """Where a proxy and the server see another end of it, what follows is another client's request for
        one of them."""
        two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        follows = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with self.watched() as (_, http):
            for fields in (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                           b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                           b"Content-Length: 0\r\nContent-Length: 5\r\n",
                           b"Content-Length: 5\r\ncontent-length: 5\r\n",
                           b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"):
                with self.subTest(fields=fields), contextlib.closing(http.connect()) as connection:
                    connection.sendall(two + fields + b"\r\n0\r\n\r\n" + follows)
                    answer = b""
                    with contextlib.suppress(ConnectionResetError):
                        for part in iter(lambda: connection.recv(65536), b""):
                            answer += part
                    self.assertRegex(answer, rb"^HTTP/1.1 400 ")
                    self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)
            self.assertEqual(http.ask("/healthz")[2], b"ok\n")

    def test_a_crowd_does_not_keep_out(self):
        """More connections than there are places ask for nothing, or take no answer: a probe of /healthz has
        its answer at the first try."""
        with self.watched() as (_, http):
            few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(few, min(most, 4096)), most))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (few, most))
            for sent in (b"", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20):
                with contextlib.ExitStack() as held:
                    for _ in range(400):
                        connection = held.enter_context(contextlib.closing(http.connect()))
                        with contextlib.suppress(OSError):
                            connection.sendall(sent)
                    for _ in range(20):
                        self.assertEqual(http.ask("/healthz")[2], b"ok\n")

    def test_the_page_in_a_browser(self):
        """What it shows is what the server says, and its console has no error."""
        with self.watched() as (server, http):
            server.read(batch=16, epochs=0, rate=1, name="<b>stands</b>")
            wait_until("it is shown", lambda: http.json("/status.json")["jobs"])
            wait_until("there is a point", lambda: http.json("/history.json")["delivered"][1:])
            page, console = page_in_browser(server.folder, "http://localhost:%d/#job=1" % http.port)
            self.assertEqual(console, [])
            self.assertIn('<b id="count">1</b>', page)
            self.assertIn("<td>&lt;b&gt;stands&lt;/b&gt;</td><td>train</td>", page)
            self.assertIn('<td class="number">%d</td>' % self.SAMPLES, page)
            self.assertRegex(page, r'<p id="job-words">0 % of its samples served other jobs too\.')
            self.assertIn("dygraph", page)
            self.assertRegex(page, r'id="trouble"[^>]*></div>')

    def test_memory_on_the_page(self):
        """What it holds and saves, of the whole, of a data set and of a job."""
        with self.watched("--memory", "96M") as (server, http):
            server.read(batch=16, epochs=1).finish()
            server.read(batch=16, epochs=0, rate=1, name="stands")
            wait_until("reads are shown", lambda: [job for job in http.json("/status.json")["jobs"]
                                                   if job["reads"]["epoch_bytes"]])
            wait_until("there is a point", lambda: http.json("/history.json")["delivered"][1:])
            page, console = page_in_browser(server.folder, "http://localhost:%d/#job=2" % http.port)
            self.assertEqual(console, [])
            self.assertRegex(page, r'<p id="memory-words">Memory 96 MiB: [0-9.]+ [KM]iB of [0-9]+ [KM]iB '
                             r"pinned \(100 % of train\), [0-9.]+ MiB for mixing, 64 MiB for prepared "
                             r"samples, "
                             r"[0-9.]+ [KM]?i?B of [0-9.]+ MiB decoded; [0-9]+ % of the bytes read so far "
                             "came from pins, (less than|about) [0-9.]+ s "
                             r"of reading saved\.</p>")
            self.assertRegex(page, '<p id="job-reads">In epoch 0, 100 % of the bytes read for it came from '
                             "pins, ")
            self.assertIn(">from pins</th>", page)
            self.assertIn(">decoding saved</th>", page)
            self.assertRegex(page, '<td class="number">[0-9.]+ [KM]iB, 100 %</td>')

    def test_the_tree_on_the_page(self):
        """Vertices with their sizes, jobs at the leaves, and each pair, as status tells them; what a job is
        called is no markup."""
        with self.watched("--policy", "dsa") as (server, http):
            for name, subset in (("<i>one</i>", "0:100"), ("two", "50:200"), ("three", "0:200")):
                server.read(batch=8, epochs=0, rate=1, name=name, subset=subset)
                wait_until("it holds its batches", lambda: (server.job_status(name) or {"window": {
                    "sent_batches": 0}})["window"]["sent_batches"] >= 2)
            #  What the page is given may be some moments old.
            wait_until("they are shown", lambda: len(http.json("/status.json")["jobs"]) == 3)
            page, console = page_in_browser(server.folder, "http://localhost:%d/" % http.port)
            self.assertEqual(console, [])
            (tree,) = http.json("/status.json")["datasets"][0]["sharing_trees"]
            names = {job["job"]: job["name"] for job in http.json("/status.json")["jobs"]}
            self.assertIn("<h2>train: 3 jobs</h2>", page)
            self.assertIn("Draws are made from this tree.", page)
            self.assertRegex(page, '<td class="size" colspan="4">[0-9]+ for (all 3|both) jobs</td>')
            self.assertEqual(page.count("<svg"), page.count("</svg>"))
            self.assertGreaterEqual(page.count("<circle"), 2)
            rows = re.findall(r'data-job="([0-9]+)".*?<td class="name" title="(.*?)">(.*?)</td>', page)
            self.assertEqual(sorted(int(row[0]) for row in rows), sorted(tree["pairs"]["jobs"]))
            for number, title, text in rows:
                self.assertEqual(title.replace("&lt;", "<").replace("&gt;", ">"), names[int(number)])
                self.assertEqual(text.replace("&lt;", "<").replace("&gt;", ">"), names[int(number)])
            self.assertNotIn("<i>one", page)
            self.assertEqual(len(re.findall(r"<td[^>]*>[0-9]+ \([0-9]+ %\)</td>", page)), 6)

    def test_the_tree_is_clicked(self):
        """A click, and Enter, say in words what a job shares with each other; many jobs are a picture."""
        with self.watched() as (server, http), self.browser(server.folder) as browser:
            def words():
                return browser.execute_script(
                    "return document.querySelector('#sharing section > p').textContent")

            def act(name, done):
                browser.execute_script(
                    "const row = [...document.querySelectorAll('#sharing .tree tr.pick')]"
                    ".find(row => row.cells[1].textContent === arguments[0]);" + done, name)

            def left(name):
                (tree,) = server.status()["datasets"][0]["sharing_trees"]
                return next(vertex["leaf"]["remaining"] for vertex in tree["vertices"]
                            if vertex["leaf"]["job"] == server.job_status(name)["job"])
            server.read(batch=8, epochs=0, rate=1, name="one", subset="0:100")
            server.read(batch=8, epochs=0, rate=1, name="two")
            wait_until("they are there", lambda: len(server.job_names()) == 2)
            browser.get("http://localhost:%d/" % http.port)
            wait_until("they are shown", lambda: len(browser.find_elements(
                "css selector", "#sharing .tree tr.pick")) == 2)
            self.assertEqual(words(), "Pick a job to read what it shares with each other.")
            act("one", "row.click()")
            self.assertRegex(words(), r"^one has [0-9]+ samples to draw\. Of these two needs [0-9]+ "
                                      r"\([0-9]+ %\)\.$")
            act("two", "row.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))")
            wait_until("it is of now", lambda: words().startswith(
                "two has %d samples to draw. Of these one needs " % left("two")))
            act("two", "row.click()")
            self.assertEqual(words(), "Pick a job to read what it shares with each other.")
            self.assertFalse(browser.find_element("css selector", "#sharing canvas").is_displayed())
            for number in range(12):
                server.read(batch=8, epochs=0, rate=1, name="more %d" % number)

            def canvas():
                return browser.find_element("css selector", "#sharing canvas")
            #  With fewer jobs the squares that are clicked would be others.
            wait_until("all are a picture", lambda: canvas().is_displayed()
                       and "of 14 jobs" in (canvas().get_attribute("aria-label") or ""))
            #  Two squares of a row are clicked: the job stays picked, and the line tells of the second.
            row, line, notes = browser.execute_script(
                "const canvas = document.querySelector('#sharing canvas'), at = canvas.clientWidth / 14;"
                "for (const x of [3, 5])"
                "    canvas.onclick({type: 'click', offsetX: (x + 0.5) * at, offsetY: 1.5 * at});"
                "return [...document.querySelectorAll('#sharing section > p, #sharing details > p')]"
                ".map(one => one.textContent)")
            self.assertRegex(row, r" has [0-9]+ samples to draw\. Of these .* needs .* %\), and 8 others at "
                                  r"most [0-9]+\.$")
            self.assertRegex(line, r" has [0-9]+ samples to draw; .* needs [0-9]+ of them ")
            self.assertEqual(notes, "No tree is kept; this one was made for you to look at.")
            self.assertEqual(self.shown(browser), [
                #  The row of ten equal jobs, picked; the same with other figures.
                "%s have 50 samples to draw, all the same ones. Of these other needs about 40 (80 %%)."
                % ", ".join("job %d" % job for job in range(1, 11)),
                "job 1 has 50 samples to draw; other needs about 40 of them (80 %)",
                "job 1 has 50 samples to draw; how many of them other needs is not known",
                "What it shares with 1 other is not known or left out.",
                "t: 11 jobs",
                "about 40 for all 11 jobs|not known how many for all 11 jobs|not known",
                "t: job 12 shares with no other job of order shared."])
            self.assertEqual(browser.get_log("browser"), [])

    def shown(self, browser):
        """What the page says of answers that are made here, all at once: ten equal jobs and another, and one
        that is alone; then with sizes that are not known."""
        return browser.execute_script("""
            const all = 11, text = place => document.querySelector(place).textContent, said = [];
            const tree = (size, pair) => ({ kept: false, ids: 1000, looked_at: 100, off_path: [],
                vertices: [...Array(all).keys()].map(place => ({ parent: place? place - 1: null,
                    size: place? 0: size, jobs: all - place, leaf: { job: place + 1, remaining: 50,
                        size: place === all - 1? 10: size === null? null: 0 } })),
                pairs: { left_out: 0, jobs: [...Array(all).keys()].map(place => place + 1),
                    common: [...Array(all).keys()].map(row => Array(row).fill(
                        row === all - 1? pair: 50)) } });
            const lone = { kept: false, ids: 1000, looked_at: 1000, off_path: [], pairs: { jobs: [12],
                common: [[]], left_out: 0 }, vertices: [{ size: 5, parent: null, jobs: 1,
                    leaf: { job: 12, size: 0, remaining: 5 } }] };
            const answer = (size, pair) => ({ jobs: [{ job: 11, name: 'other' }], datasets: [{ name: 't',
                drawing_alone: [], sharing_trees: [tree(size, pair), lone] }] });
            const real = before;
            cards.clear();
            sharer = 3;
            before = answer(40, 40);
            showSharing(before);
            const canvas = document.querySelector('#sharing canvas'), cell = { type: 'mousemove' };
            said.push(text('#sharing section > p'));
            const size = text('#sharing td.size'), card = [...cards.values()][0];
            card.pair = [1, 11];
            showSharing(before);
            said.push(text('#sharing details > p'));
            showSharing(answer(null, null));
            said.push(text('#sharing details > p'), text('#sharing section > p').split('. ').pop(),
                text('#sharing h2'), [size, text('#sharing td.size'),
                text('#sharing .tree tr.pick td:last-child')].join('|'), text('#alone'));
            before = real;
            sharer = null;
            cards.clear();
            showSharing(before);
            return said;""")

    @contextlib.contextmanager
    def browser(self, folder):
        """One to click in; nothing where there is none."""
        try:
            from selenium import webdriver
            from selenium.webdriver.chrome.service import Service
        except ImportError:
            webdriver = None
        driver = shutil.which("chromedriver")
        if not webdriver or not driver or not shutil.which("chromium"):
            self.skipTest("no selenium or no chromedriver (apt install python3-selenium chromium-driver)")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900",
                         "--user-data-dir=" + os.path.join(folder, "clicked")):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(service=Service(driver), options=options)
        try:
            yield browser
        finally:
            browser.quit()

    def test_the_page_clicked_through(self):
        """A click, and Enter, show a job's history, its waits, and why it shares little; it follows
        the system's colours; a job that goes is told; and the console stays empty."""
        with self.watched() as (server, http), self.browser(server.folder) as browser:
            def text(element):
                return browser.execute_script("return document.getElementById(arguments[0]).textContent",
                                              element)

            def rows():
                return browser.find_elements("css selector", "#jobs tr.pick")

            def pick(name, act):
                """In one go: a row may be drawn anew between finding and clicking."""
                browser.execute_script("const row = [...document.querySelectorAll('#jobs tr.pick')].find("
                                       "row => row.cells[0].textContent === arguments[0]);" + act, name)
            server.read(batch=16, epochs=0, rate=200, name="stands")
            wait_until("it is there", lambda: server.job_status("stands"))
            alone = server.read(batch=16, epochs=0, rate=200, order="seeded", seed=4,
                                name="draws alone")
            wait_until("they run", lambda: len([job for job in server.status()["jobs"]
                                                if job["consumed_samples"] > 50]) == 2)
            wait_until("there are points", lambda: len(http.json("/history.json")["delivered"]) > 2)
            browser.get("http://localhost:%d/" % http.port)
            wait_until("both are shown", lambda: len(rows()) == 2)
            self.assertFalse(browser.find_element("id", "job").is_displayed())
            pick("draws alone", "row.click()")
            wait_until("it is shown", lambda: text("job-name") == "draws alone")
            self.assertTrue(browser.find_element("id", "job").is_displayed())
            self.assertIn("It draws by itself (order seeded)", text("job-words"))
            self.assertRegex(text("job-waits"),
                             "^Of 100 batches, 95 waited for: .*client at most [0-9.]+ m?s")
            wait_until("its history is drawn", lambda: browser.find_elements("css selector",
                                                                             "#job-chart canvas"))
            self.assertIn("% decode", text("job-chart-key"))
            self.assertEqual(browser.execute_script("return location.hash"),
                             "#job=%d" % server.job_status("draws alone")["job"])
            pick("stands", "row.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))")
            wait_until("the other is shown", lambda: text("job-name") == "stands")
            grounds = set()
            for scheme in ("light", "dark"):
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
                    {"name": "prefers-color-scheme", "value": scheme}]})
                grounds.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
            self.assertEqual(len(grounds), 2)
            pick("draws alone", "row.click()")
            wait_until("it is shown again", lambda: text("job-name") == "draws alone")
            alone.signal(2)
            alone.wait()
            wait_until("its end is told", lambda: text("job-words") == "It has gone.")
            self.assertEqual(text("trouble"), "")
            self.assertEqual(browser.get_log("browser"), [])

    def test_crowds_and_nonsense(self):
        """Connections that say nothing, readers that do not read, bytes that are no HTTP, and hundreds of
        scrapes, while a job runs: all of the job comes, and the figures too."""
        generator = harness.seeded("http nonsense")
        with self.watched() as (server, http):
            job = server.read(batch=16, epochs=0, name="runs")
            wait_until("it runs", lambda: server.job_status("runs"))
            held, (few, most) = [], resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(few, min(most, 4096)), most))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (few, most))
            for _ in range(1000):
                with contextlib.suppress(OSError):
                    held.append(http.connect())
            for connection in held[:300]:
                with contextlib.suppress(OSError):
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
            before = server.job_status("runs")["delivered_samples"]
            wait_until("the job goes on", lambda: server.job_status("runs")["delivered_samples"]
                       > before + 5 * self.SAMPLES)
            for connection in held:
                connection.close()
            wait_until("it answers again", lambda: self.answers(http))
            for _ in range(200):
                with contextlib.suppress(OSError), contextlib.closing(http.connect()) as connection:
                    connection.settimeout(0.01)
                    head = generator.choice([b"", b"GET ", b"GET / HTTP/1.1\r\n",
                                             b"GET /metrics HTTP/9.9\r\n\r\n"])
                    connection.sendall(head + generator.randbytes(generator.randrange(5000)))
                    connection.recv(100)
            self.assertTrue(self.answers(http))
            failures = []

            def scrape():
                for _ in range(50):
                    failures.extend([] if http.ask("/metrics")[0] == 200 else [1])
            threads = [threading.Thread(target=scrape) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            job.signal(2)
            job.wait()

    def answers(self, http):
        try:
            return http.ask("/healthz")[0] == 200
        except OSError:
            return False

    #   Before the data, which may take long to open: here they are not there.
    def test_what_is_refused_at_the_start(self):
        tokens = os.path.join(self.root, "tokens")
        with open(tokens, "w") as file:
            file.write("* " + OPERATORS + "\n")
        os.chmod(tokens, 0o644)
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for arguments, why in ((("--http", str(taken.getsockname()[1])),
                                "Address already in use: choose another --http"),
                               (("--http", str(harness.free_port()), "--http-tokens", self.root + "/none"),
                                "http-tokens: .*No such file"),
                               (("--http", "0.0.0.0:%d" % harness.free_port()), "give --http-tokens FILE"),
                               (("--http", "nonsense"), r"expected \[ADDRESS:\]PORT or unix:PATH"),
                               (("--http-tokens", tokens), "http-tokens without http"),
                               (("--http", str(harness.free_port()), "--http-tokens", tokens),
                                "chmod 600")):
            with self.subTest(arguments):
                done = run("serve", "--dataset", "train=%s/none" % self.root, "--listen",
                           "ipc://%s/s" % self.root, *arguments)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertRegex(done.stderr, why)

    def test_a_log_of_json(self):
        with self.serve(arguments=("--log-format", "json")) as server:
            server.read(batch=16, epochs=1, name='"quoted"').finish()
            lines = [json.loads(line) for line in server.log().splitlines()]
            self.assertEqual([line["event"] for line in lines if line["event"] != "start"][:1], ["joined"])
            joined = next(line for line in lines if line["event"] == "joined")
            self.assertEqual((joined["job"], joined["dataset"]), (1, "train"))
            self.assertTrue(joined["message"].endswith(', "quoted"'))
            self.assertIn("listening on " + server.endpoint, [line["message"] for line in lines])

    def test_a_socket_file(self):
        path = os.path.join(self.root, "http")
        with self.serve(arguments=("--http", "unix:" + path)):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o700)
            self.assertEqual(Http(path=path).json("/status.json")["datasets"][0]["name"], "train")
        self.assertFalse(os.path.exists(path))


class Viewers(KeyTest):
    """Tenants by token: what their `tureen status` shows, and nothing else."""

    def test_each_sees_its_own(self):
        tokens, port = self.path("tokens"), harness.free_port()
        with open(tokens, "w") as file:
            file.write("* %s\nvision %s\n" % (OPERATORS, VISION))
        os.chmod(tokens, 0o600)
        for name in ("vision", "audio"):
            self.allow(name, name)
        http = Http(port)
        arguments = ("--http", str(port), "--http-tokens", tokens, "--memory", "96M")
        with self.server("vision", "audio", arguments=arguments) as server:
            for name in ("vision", "audio"):
                self.job(server, name, name=name, epochs=3)
            wait_until("they are shown", lambda: len(http.json("/status.json", Authorization="Bearer "
                                                               + OPERATORS)["jobs"]) == 2)
            all_jobs = http.json("/status.json", Authorization="Bearer " + OPERATORS)
            self.assertEqual(sorted(job["name"] for job in all_jobs["jobs"]), ["audio", "vision"])
            own = http.json("/status.json", Authorization="Bearer " + VISION)
            self.assertEqual([job["name"] for job in own["jobs"]], ["vision"])
            self.assertEqual(own["tenant"]["name"], "vision")
            wait_until("there is a point", lambda: http.json("/history.json", Authorization="Bearer "
                                                             + OPERATORS)["jobs"])
            hour = http.json("/history.json", Authorization="Bearer " + VISION)
            self.assertEqual([job["name"] for job in hour["jobs"]], ["vision"])
            numbers = {job["name"]: job["job"] for job in all_jobs["jobs"]}
            self.assertEqual(http.ask("/history.json?job=%d" % numbers["audio"],
                                      Authorization="Bearer " + VISION)[0], 404)
            seen = http.ask("/metrics", Authorization="Bearer " + VISION)[2]
            self.assertIn(b'name="vision"', seen)
            for other in (b"audio", b"tureen_processor_seconds", b"tureen_tenant_jobs", b"tureen_device",
                          b"pinned", b"read_bytes", b"memory_limit"):
                self.assertNotIn(other, seen)
            #  What is in memory already would tell a tenant what others have read.
            self.assertIn("reads", all_jobs["jobs"][0])
            self.assertIn("pins", all_jobs["datasets"][0])
            self.assertIn("memory", all_jobs)
            self.assertNotIn("reads", own["jobs"][0])
            self.assertNotIn("pins", own["datasets"][0])
            self.assertNotIn("memory", own)
            for authorization in ({}, {"Authorization": "Bearer " + VISION + "x"},
                                  {"Authorization": "Basic eDp4"}):
                for path in ("/status.json", "/metrics", "/history.json", "/history.json?job=1"):
                    status, headers, body = http.ask(path, **authorization)
                    self.assertEqual((status, headers["WWW-Authenticate"]), (401, 'Bearer realm="tureen"'))
                    self.assertNotIn(b"audio", body)
            self.assertEqual(http.ask("/healthz")[0], 200)
            self.assertEqual(http.ask("/")[0], 200)
            self.assertNotIn(VISION, server.log())


if __name__ == "__main__":
    unittest.main()
