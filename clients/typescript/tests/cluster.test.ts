import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";

import { connect } from "../src/index.js";
import type { Options, Safety } from "../src/index.js";
import { firstOf, shuffled } from "../src/server_race.js";
import { Bus } from "./rig.js";
import { allow, StandIn } from "./stand_in.js";
import type { Fields } from "./stand_in.js";

const READ = { type: "read_file", paths: ["a.py"] };
const AT_LEISURE = { deadlineS: 60 };
// How long there is no daemon: longer than a client waits on a single machine.
const GAP_MS = 1500;
const buses: Bus[] = [];
const clients: Safety[] = [];
const daemons: StandIn[] = [];

afterEach(async () => {
  await Promise.all(clients.splice(0).map((safety) => safety.close()));
  await Promise.all(daemons.splice(0).map((daemon) => daemon.nats.close()));
  await Promise.all(buses.splice(0).map((bus) => bus.kill()));
});

async function node(...options: string[]): Promise<Bus> {
  const bus = await Bus.node(...options);
  buses.push(bus);
  return bus;
}

async function agent(options: Options): Promise<Safety> {
  const safety = await connect("code", { dataDir: "/nowhere", ...options });
  clients.push(safety);
  return safety;
}

async function standIn(bus: Bus): Promise<StandIn> {
  const daemon = await StandIn.on(bus.url);
  daemons.push(daemon);
  return daemon;
}

async function later(bus: Bus): Promise<StandIn> {
  await new Promise((resolve) => setTimeout(resolve, GAP_MS));
  return standIn(bus);
}

const idsOf = (daemon: StandIn): unknown[] =>
  (daemon.heard["propose"] ?? []).map((asked) => asked["id"]);

test("a proposal waits for the next daemon and is decided once", async () => {
  const bus = await node();
  const safety = await agent({ url: bus.url });
  const [decision, daemon] = await Promise.all([safety.propose(READ, AT_LEISURE), later(bus)]);
  assert.ok(decision.allowed);
  assert.deepEqual(idsOf(daemon), [decision.id]);
});

test("a proposal is blocked at its deadline if no daemon takes over", async () => {
  const bus = await node();
  const decision = await (await agent({ url: bus.url })).propose(READ, { deadlineS: 0.6 });
  assert.equal(decision.cause, "unavailable");
  assert.match(decision.reason, /tried for 0\.6 s/);
});

test("several addresses are a cluster even if none answers", async () => {
  const safety = await agent({ url: "nats://127.0.0.1:1,nats://127.0.0.1:2", deadlineS: 0.6 });
  assert.match((await safety.propose(READ)).reason, /tried for 0\.6 s/);
});

test("on a single machine, a missing daemon is detected before the deadline", async () => {
  const bus = await Bus.start();
  buses.push(bus);
  const decision = await (await agent({ url: bus.url })).propose(READ, { deadlineS: 3600 });
  assert.equal(decision.cause, "unavailable");
  assert.doesNotMatch(decision.reason, /tried for/);
});

test("a rejected key is reported at once even on a cluster", async () => {
  const bus = await node("--auth", "secret");
  const safety = await agent({ url: `${bus.url},${bus.url}` });
  const decision = await safety.propose(READ, { deadlineS: 3600 });
  assert.match(decision.reason, /safetyd agent add code/);
});

test("a lost answer is requested again under the same id", async () => {
  const bus = await node();
  const daemon = await standIn(bus);
  daemon.answers["propose"] = (asked) => (idsOf(daemon).length > 2 ? allow(asked) : undefined);
  const decision = await (await agent({ url: bus.url })).propose(READ, AT_LEISURE);
  assert.ok(decision.allowed);
  assert.deepEqual(idsOf(daemon), Array(3).fill(decision.id));
});

test("a daemon that hands over refuses nothing, on a single server too", async () => {
  const bus = await Bus.start();
  buses.push(bus);
  const old = await standIn(bus);
  const safety = await agent({ url: bus.url });
  let left = (): void => {};
  const handedOver = new Promise<void>((resolve) => { left = resolve; });
  old.answers["propose"] = (asked) => {
    left();
    const refused = { decision: "block", cause: "unavailable", reason: "stopping", retry: true };
    old.nats.publish(`safety.v1.decision.code.${asked["id"]}`, JSON.stringify(allow(asked, refused)));
    return allow(asked, refused);
  };
  const replaced = handedOver.then(async () => {
    await old.nats.flush();
    await old.nats.close();
    return later(bus);
  });
  const [decision, daemon] = await Promise.all([safety.propose(READ, AT_LEISURE), replaced]);
  assert.ok(decision.allowed);
  assert.deepEqual(new Set([...idsOf(old), ...idsOf(daemon)]), new Set([decision.id]));
});

test("a refusal without retry is final, and an allow with retry is no permission", async () => {
  const bus = await node();
  const daemon = await standIn(bus);
  const safety = await agent({ url: bus.url });
  const refused = { decision: "block", cause: "unavailable", reason: "no" };
  daemon.answers["propose"] = (asked) => allow(asked, refused);
  assert.equal((await safety.propose(READ, { deadlineS: 3600 })).reason, "no");
  daemon.answers["propose"] = (asked) => allow(asked, { retry: true });
  assert.equal((await safety.propose(READ, { deadlineS: 0.4 })).cause, "unavailable");
});

test("claims and telemetry wait for the next daemon, and are recorded once", async () => {
  const bus = await node();
  const safety = await agent({ url: bus.url, deadlineS: 60 });
  const recorded: Fields[] = [];
  let refusals = 2;
  const next = later(bus).then((daemon) => {
    const retry = { granted: false, ok: false, cause: "unavailable", code: "unavailable", retry: true };
    const grant = { granted: true, ok: true, cause: "human_approved" };
    for (const verb of ["claim", "telemetry"]) {
      daemon.answers[verb] = (said) => {
        if (refusals > 0) {
          refusals -= 1;
          return retry;
        }
        recorded.push(said);
        return grant;
      };
    }
  });
  const claimed = safety.claim({ id: "a", digest: "b" } as never, { claimant: "me" });
  const told = safety.telemetry({ type: "iteration" });
  await next;
  assert.equal((await claimed).granted, true);
  assert.equal(await told, true);
  assert.equal(refusals, 0);
  assert.deepEqual(recorded.map((said) => said["type"] ?? "claim").sort(), ["claim", "iteration"]);
});

test("a dead and a frozen server do not prevent a connection to another", async () => {
  const [dead, stuck, alive] = [await node(), await node(), await node()];
  await dead.kill();
  await stuck.freeze();
  await standIn(alive);
  const url = [dead, stuck, alive].map((bus) => bus.url).join(",");
  for (let round = 0; round < 5; round += 1) { // the order of the servers is random
    assert.ok((await (await agent({ url })).propose(READ, AT_LEISURE)).allowed);
  }
  stuck.thaw();
});

test("a client leaves a server that freezes, although its daemon removed the address", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "safetyd-ts-"));
  const [first, second] = [await node(), await node()];
  writeFileSync(join(dataDir, "endpoint.json"), JSON.stringify({ bus: `${first.url},${second.url}` }));
  const [one, two] = [await standIn(first), await standIn(second)];
  const safety = await agent({ dataDir });
  assert.ok((await safety.propose(READ)).allowed);
  rmSync(dataDir, { recursive: true });
  const [stuck, other] = idsOf(one).length > 0 ? [first, two] : [second, one];
  await stuck.freeze();
  // The library's own pings would need fifteen seconds to notice.
  const decision = await safety.propose(READ, { deadlineS: 10 });
  stuck.thaw();
  assert.ok(decision.allowed);
  assert.deepEqual(idsOf(other), [decision.id]);
});

test("of several servers the first that answers is used, and late ones are closed", async () => {
  const closed: string[] = [];
  let late = (): void => {};
  const slow = new Promise<string>((resolve) => { late = () => resolve("slow"); });
  const connectTo = (server: string): Promise<string> => {
    if (server === "slow") {
      return slow;
    }
    return server === "refuses" ? Promise.reject(new Error(server)) : Promise.resolve(server);
  };
  const found = await firstOf(
    ["slow", "refuses", "answers", "unused"], connectTo, (server) => closed.push(server),
  );
  late();
  await slow;
  assert.equal(found, "answers");
  assert.deepEqual(closed, ["slow"]);
  await assert.rejects(firstOf(["refuses"], connectTo, () => {}), /refuses/);
  assert.deepEqual(shuffled(["a", "b", "c"]).sort(), ["a", "b", "c"]);
});
