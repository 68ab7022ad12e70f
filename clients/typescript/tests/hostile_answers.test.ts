import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Blocked, connect } from "../src/index.js";
import type { Safety } from "../src/index.js";
import { Bus, until } from "./rig.js";
import { allow, StandIn } from "./stand_in.js";
import type { Fields } from "./stand_in.js";

const READ = { type: "read_file", paths: ["a.py"] };
let bus: Bus;
let daemon: StandIn;
let safety: Safety;

beforeEach(async () => {
  bus = await Bus.start();
  daemon = await StandIn.on(bus.url);
  safety = await connect("code", { url: bus.url, dataDir: "/nowhere", deadlineS: 1 });
});

afterEach(async () => {
  delete process.env["SAFETYD_ENABLED"];
  await safety.close();
  await daemon.nats.close();
  await bus.kill();
});

const never = (): never => assert.fail("the body ran");
const blockedBy = (cause: string) => (error: unknown): true => {
  assert.ok(error instanceof Blocked);
  assert.equal(error.decision.cause, cause);
  assert.equal(error.decision.allowed, false);
  return true;
};

const WRONG: Record<string, (asked: Fields) => Fields | string | undefined> = {
  "another digest": (asked) => allow(asked, { digest: `sha256:${"0".repeat(64)}` }),
  "no digest": (asked) => allow(asked, { digest: "" }),
  "another id": (asked) => allow(asked, { id: "other" }),
  "another agent": (asked) => allow(asked, { agent: "other" }),
  "an allow that is pending": (asked) => allow(asked, { status: "pending" }),
  "an unknown verdict": (asked) => allow(asked, { decision: "ALLOW" }),
  "true as the verdict": (asked) => allow(asked, { decision: true }),
  "a claim_required that is no boolean": (asked) => allow(asked, { claim_required: "false" }),
  "an expires_at that is no time": (asked) => allow(asked, { expires_at: "soon" }),
  "no JSON": () => "allow",
  "an empty message": () => "",
  "an array": (asked) => JSON.stringify([allow(asked)]),
  "silence": () => undefined,
};

for (const [what, answer] of Object.entries(WRONG)) {
  test(`no body runs after ${what}`, async () => {
    daemon.answers["propose"] = answer;
    await assert.rejects(safety.guard(READ, never), blockedBy("unavailable"));
    const ids = daemon.heard["propose"]?.map((asked) => asked["id"]);
    assert.ok((ids?.length ?? 0) > 1, "it was not sent again");
    assert.equal(new Set(ids).size, 1);
  });
}

test("the right answer counts after a wrong one", async () => {
  daemon.answers["propose"] = (asked, msg) => {
    msg.respond(JSON.stringify(allow(asked, { digest: "sha256:0" })));
    return allow(asked);
  };
  assert.equal(await safety.guard(READ, () => "ran"), "ran");
});

test("no body runs if the claim is refused, malformed or not answered", async () => {
  daemon.answers["propose"] = (asked) => allow(asked, { claim_required: true });
  for (const [cause, answer] of [
    ["already_claimed", { granted: false, cause: "already_claimed" }],
    ["unavailable", { granted: 1, cause: "human_approved" }],
    ["unavailable", undefined],
  ] as const) {
    daemon.answers["claim"] = () => answer;
    await assert.rejects(safety.guard(READ, never), blockedBy(cause));
  }
});

test("no body runs after a stop that began between the allow and the body", async () => {
  daemon.answers["propose"] = (asked) => allow(asked, { claim_required: true });
  daemon.answers["claim"] = () => {
    daemon.stop(true);
    return { granted: true, cause: "human_approved" };
  };
  await assert.rejects(safety.guard(READ, never), blockedBy("stopped"));
  assert.ok(safety.stopped);
  const told = await until(() => daemon.heard["telemetry"]?.find((one) => one["stop_epoch"]));
  assert.deepEqual(told, { type: "heartbeat", stop_epoch: 7 });
  await until(() => daemon.heard["telemetry"]?.some((one) => one["type"] === "unreported"));
});

test("a stop of another agent, or from another sender, is no stop", async () => {
  daemon.stop(true, { agent: "other" });
  daemon.stop(true, { genuine: false });
  assert.equal(await safety.guard(READ, () => "ran"), "ran");
  assert.equal(safety.stopped, false);
});

test("a body runs again after the stop has ended", async () => {
  daemon.stop(true);
  await assert.rejects(safety.guard(READ, never), blockedBy("stopped"));
  daemon.stop(false);
  assert.equal(await safety.guard(READ, () => "ran"), "ran");
});

test("no body runs after the permission has expired", async () => {
  const times = { at: "2026-02-08T14:30:22Z", expires_at: "2026-02-08T14:30:22Z" };
  daemon.answers["propose"] = (asked) => allow(asked, { ...times, claim_required: true });
  await assert.rejects(safety.guard(READ, never), blockedBy("unavailable"));
});

test("an approval on the decision subject alone is no permission", async () => {
  daemon.answers["propose"] = (asked) => {
    const approved = allow(asked, { cause: "human_approved" });
    daemon.nats.publish(`safety.v1.decision.code.${asked["id"]}`, JSON.stringify(approved));
    return undefined;
  };
  await assert.rejects(safety.guard(READ, never), blockedBy("unavailable"));
});

test("no body runs if the bus dies after the proposal was sent", async () => {
  daemon.answers["propose"] = () => void bus.kill();
  await assert.rejects(safety.guard(READ, never), blockedBy("unavailable"));
});

test("a proposal is allowed again after the bus has restarted", async () => {
  await bus.kill();
  assert.equal((await safety.propose(READ)).cause, "unavailable");
  await bus.start();
  daemon = await StandIn.on(bus.url);
  await until(async () => (await safety.propose(READ)).allowed);
});

test("a switch that is off blocks without asking the daemon", async () => {
  process.env["SAFETYD_ENABLED"] = "false";
  await assert.rejects(safety.guard(READ, never), blockedBy("disabled"));
  assert.equal((await safety.claim({ id: "a", digest: "b" } as never)).granted, false);
  assert.deepEqual([daemon.heard["propose"], daemon.heard["claim"]], [[], []]);
});

test("a closed client allows nothing", async () => {
  const allowed = await safety.propose(READ);
  await safety.close();
  await assert.rejects(safety.guard(READ, never), blockedBy("unavailable"));
  assert.equal((await safety.claim(allowed)).granted, false);
  assert.equal(await safety.outcome(allowed.id, { ok: true }), false);
});

test("an outcome is sent until it is acknowledged, and before the next proposal", async () => {
  const order: unknown[] = [];
  let refusals = 2;
  daemon.answers["telemetry"] = (said) => {
    order.push(said["id"]);
    refusals -= 1;
    return refusals < 0 ? { ok: true } : { ok: false, error: "busy", code: "unavailable" };
  };
  daemon.answers["propose"] = (asked) => {
    order.push("propose");
    return allow(asked);
  };
  await safety.outcome("first", { ok: true });
  await until(() => order.length === 3);
  await safety.outcome("second", { ok: false, error: "no \0 space" });
  await safety.propose(READ);
  assert.deepEqual(order, ["first", "first", "first", "second", "propose"]);
  assert.equal(daemon.heard["telemetry"]?.at(-1)?.["error"], "no  space");
});
