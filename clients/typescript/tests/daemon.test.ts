import assert from "node:assert/strict";
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Blocked, connect } from "../src/index.js";
import type { Options, Proposal, Safety } from "../src/index.js";
import { Daemon, until } from "./rig.js";

let daemon: Daemon;
const open: Safety[] = [];

before(async () => {
  daemon = await Daemon.start();
});

after(async () => {
  await Promise.all(open.map((safety) => safety.close()));
  await daemon.remove();
});

async function agent(name: string, options: Options = {}): Promise<Safety> {
  open.push(await connect(name, { dataDir: daemon.dataDir, deadlineS: 10, ...options }));
  return open.at(-1)!;
}

/** Wait for the pending request of an agent and return its id. */
function requestOf(name: string): Promise<string> {
  return until(async () => {
    const { requests } = JSON.parse(await daemon.operator("list", "--agent", name, "--json"));
    return (requests as { id: string }[])[0]?.id;
  });
}

const push = (text: string): Proposal => ({ type: "push", text });

async function blocked(run: Promise<unknown>): Promise<Blocked["decision"]> {
  let found: unknown;
  await assert.rejects(run, (error) => (found = error) instanceof Blocked);
  return (found as Blocked).decision;
}

test("an allowed body runs, and its outcome is in the journal", async () => {
  const safety = await agent("reader");
  const result = await safety.guard({ type: "read_file", paths: ["a.py"] }, (decision) => {
    assert.ok(decision.allowed);
    return decision.id;
  });
  const failing = safety.guard({ type: "read_file", paths: ["b.py"] }, () => {
    throw new RangeError("no such line");
  });
  await assert.rejects(failing, RangeError);
  await safety.close();
  const proposed = daemon.events("decided", "reader").map((event) => event["proposal"]);
  assert.equal((proposed[0] as Proposal).cwd, process.cwd(), "where a.py is");
  const reported = daemon.events("reported", "reader").map((event) => event["telemetry"]);
  const [first, second] = reported as Record<string, unknown>[];
  assert.deepEqual([first?.["id"], first?.["ok"]], [result, true]);
  assert.deepEqual([second?.["ok"], second?.["error"]], [false, "RangeError: no such line"]);
});

test("a blocked body does not run", async () => {
  const safety = await agent("shell");
  const decision = await blocked(
    safety.guard({ type: "run_shell", text: "rm -rf /" }, () => assert.fail("the body ran")),
  );
  assert.equal(decision.decision, "block");
});

test("the daemon computes the same digest of unusual numbers, keys and texts", async () => {
  const safety = await agent("digests");
  const context = {
    numbers: [1e21, 1e20, 1e16, 2 ** 53, -0, 1e-7, 0.1 + 0.2, 5e-324, 9.9999e15, 1.5e300],
    "\u{1f600}": 1, "\uffff": 2, "\u007f\u0001\u2028": "\b\f\\\"/", at: new Date(0), no: null,
  };
  const decision = await safety.propose({ type: "read_file", paths: ["a"], context });
  assert.ok(decision.allowed, decision.reason);
});

test("a message that the daemon rejects is blocked as malformed", async () => {
  const safety = await agent("wrong");
  const decision = await safety.propose({ type: "read_file", confidence: 7 });
  assert.deepEqual([decision.cause, decision.allowed], ["malformed", false]);
  assert.match(decision.reason, /confidence/);
});

test("of all clients that get the same approval, one body runs", async () => {
  const [first, second] = [await agent("twin"), await agent("twin")];
  const action = { ...push("git push origin twin"), id: "twin-1" };
  const bodies: number[] = [];
  const pending = await blocked(first.guard(action, () => assert.fail("the body ran")));
  assert.equal(pending.status, "pending");
  assert.equal((await first.permission(pending.request_id!)).status, "queued");
  assert.equal((await first.pendingRequests())[0]?.request_id, pending.request_id);
  await daemon.operator("approve", pending.request_id!);

  const runs = [first, second, first].map((safety, which) =>
    safety.guard(action, () => bodies.push(which)).catch((error: unknown) => error));
  const results = await Promise.all(runs);

  assert.equal(bodies.length, 1);
  const refused = results.filter((result) => result instanceof Blocked);
  assert.deepEqual(refused.map(({ decision }) => decision.cause), Array(2).fill("already_claimed"));
});

test("an approval that is claimed once is granted to nobody else", async () => {
  const [first, second] = [await agent("claims"), await agent("claims")];
  const waiting = first.waitFor(push("git push origin claims"));
  await daemon.operator("approve", await requestOf("claims"));
  const decision = await waiting;
  assert.deepEqual([decision.cause, decision.claim_required], ["human_approved", true]);
  assert.equal((await first.claim(decision, { claimant: "first" })).granted, true);
  assert.equal((await second.claim(decision)).cause, "already_claimed");
  assert.equal((await first.claim(decision, { claimant: "first" })).granted, true);
});

test("a waiting proposal gets the denial with its reason", async () => {
  const safety = await agent("denied");
  const waiting = safety.waitFor(push("git push origin denied"));
  await daemon.operator("deny", await requestOf("denied"), "--reason", "not today");
  const decision = await waiting;
  assert.equal(decision.cause, "human_denied");
  assert.match(decision.reason, /not today/);
});

test("permission can be requested before the action is proposed", async () => {
  const safety = await agent("asks");
  const text = "git push origin asks";
  const ask = { action: "push", description: "Push it", context: { text } };
  const queued = await safety.requestPermission(ask);
  assert.ok(queued.status === "queued");
  await daemon.operator("approve", queued.request_id);
  const proposal = { ...push(text), description: "Push it", request_id: queued.request_id };
  assert.equal(await safety.guard(proposal, () => "ran"), "ran");
});

test("permission that is waited for is granted by the operator", async () => {
  const safety = await agent("patient");
  const context = { text: "git push origin patient" };
  const waiting = safety.requestPermission({ action: "push", context, wait: true });
  await daemon.operator("approve", await requestOf("patient"), "--message", "go on");
  assert.deepEqual(await waiting, { status: "approved", message: "go on" });
});

test("a dry run says what would be allowed", async () => {
  const safety = await agent("dry");
  assert.equal(await safety.isAutoAllowed({ type: "read_file" }), true);
  assert.equal(await safety.isAutoAllowed(push("git push")), false);
  assert.deepEqual(await safety.pendingRequests(), []);
});

test("no body runs during a stop, and the client acknowledges it", async () => {
  const safety = await agent("halted");
  const read = { type: "read_file" };
  assert.equal(await safety.guard(read, () => "ran"), "ran");
  await daemon.operator("stop", "--agent", "halted", "for a test");
  await until(() => safety.stopped);
  assert.equal((await blocked(safety.guard(read, () => "ran"))).cause, "stopped");
  const acknowledged = await until(() => daemon.events("reported", "halted")
    .map((event) => event["telemetry"] as Record<string, unknown>)
    .find((telemetry) => telemetry["stop_epoch"]));
  assert.equal(acknowledged["type"], "heartbeat");
  await daemon.operator("resume", "--agent", "halted", "--reason", "tested");
  await until(() => !safety.stopped);
  assert.equal(await safety.guard(read, () => "ran"), "ran");
});

test("an agent with a key is found in the data directory, by file and by address", async () => {
  await daemon.operator("agent", "add", "keyed");
  const own = join(daemon.dataDir, "keys", "agents", "keyed.nk");
  const copy = join(daemon.directory, "elsewhere.nk");
  copyFileSync(own, copy);
  const endpoint = readFileSync(join(daemon.dataDir, "endpoint.json"), "utf8");
  const { bus } = JSON.parse(endpoint) as { bus: string };
  const elsewhere = { url: bus, keyFile: copy, dataDir: "/nowhere" };
  for (const place of [{}, { keyFile: copy }, elsewhere]) {
    const safety = await agent("keyed", place);
    assert.ok((await safety.propose({ type: "read_file" })).allowed);
  }
  const other = await agent("someone", { keyFile: copy, deadlineS: 2 });
  const rejected = await other.propose({ type: "read_file" });
  assert.equal(rejected.cause, "unavailable");
  assert.match(rejected.reason, /key of agent someone/);
});

test("the environment names the data directory and the key file", async () => {
  process.env["SAFETYD_DATA_DIR"] = daemon.dataDir;
  try {
    const found = await connect("reader", { deadlineS: 10 });
    open.push(found);
    assert.ok((await found.propose({ type: "read_file" })).allowed);
    process.env["SAFETYD_KEY_FILE"] = join(daemon.directory, "safetyd.toml");
    const wrong = await connect("reader", { deadlineS: 1 });
    open.push(wrong);
    assert.match((await wrong.propose({ type: "read_file" })).reason, /not contain an nkey/);
  } finally {
    delete process.env["SAFETYD_DATA_DIR"];
    delete process.env["SAFETYD_KEY_FILE"];
  }
});

test("without a daemon every proposal is blocked, and the reason names the file", async () => {
  const safety = await agent("alone", { dataDir: daemon.directory });
  const decision = await safety.propose({ type: "read_file" });
  assert.equal(decision.cause, "unavailable");
  assert.match(decision.reason, /endpoint\.json/);
});

test("invalid names and options throw", async () => {
  await assert.rejects(connect("a.b"), TypeError);
  await assert.rejects(connect("a", { prefix: "safety.>" }), TypeError);
  await assert.rejects(connect("a", { adress: "x" } as never), TypeError);
});

test("a waiting proposal survives a restart of the daemon", async () => {
  const safety = await agent("survivor");
  const waiting = safety.waitFor(push("git push origin survivor"));
  const request = await requestOf("survivor");
  await daemon.stop();
  await daemon.start();
  await daemon.operator("approve", request);
  assert.equal((await waiting).cause, "human_approved");
});
