// Clients that read and conditionally write eight rows, and record what they see.
"use strict";
const fs = require("fs");
const { types } = require("cassandra-driver");

const KEYS = 8;
// The statements of a register and its column, which the environment may replace.
const environment = process.env;
const READ = environment.REGISTER_READ ?? "SELECT v FROM registers.rows WHERE k = ?";
const INSERT =
  environment.REGISTER_INSERT ?? "INSERT INTO registers.rows (k, v) VALUES (?, ?) IF NOT EXISTS";
const UPDATE =
  environment.REGISTER_UPDATE ?? "UPDATE registers.rows SET v = ? WHERE k = ? IF v = ?";
const DELETE = environment.REGISTER_DELETE ?? "DELETE FROM registers.rows WHERE k = ? IF v = ?";
const COLUMN = environment.REGISTER_COLUMN ?? "v";
const PREPARED = { prepare: true, serialConsistency: types.consistencies.serial };

/** What all clients share. */
class Load {
  constructor(client, seconds) {
    this.client = client;
    this.began = process.hrtime.bigint();
    this.length = BigInt(seconds) * 1_000_000_000n;
    this.values = 0;
    this.history = [];
    // The last value that a client saw of each register; it may be old.
    this.latest = Array(KEYS).fill(null);
  }

  /** Returns the nanoseconds since the beginning; a number holds those of 100 days exactly. */
  now() {
    return Number(process.hrtime.bigint() - this.began);
  }

  async run(number) {
    while (BigInt(this.now()) < this.length) await this.operate(number);
  }

  /** Sends one request that suits the latest value of a random register. */
  async operate(number) {
    const register = Math.floor(Math.random() * KEYS);
    const one = {
      key: String(register), client: number, kind: "cas", begin: 0, end: null,
      expected: null, new: null, applied: null, found: null,
    };
    const [text, values] = this.choose(one, register);
    const options = one.kind === "read"
      ? { ...PREPARED, consistency: types.consistencies.serial }
      : PREPARED;
    this.history.push(one);
    one.begin = this.now();
    let answer;
    try {
      answer = await this.client.execute(text, values, options);
    } catch (error) {
      // After another error the write may have happened.
      if (error.code >= 0x2000 && error.code !== types.responseErrorCodes.unprepared) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
      return;
    }
    one.end = this.now();
    const row = answer.first();
    one.found = row && row[COLUMN] ? row[COLUMN].toNumber() : null;
    if (one.kind === "cas") {
      one.applied = answer.wasApplied();
      if (one.applied) one.found = null;
    }
    this.latest[register] = one.applied ? one.new : one.found;
  }

  /** Returns a statement and its values, and enters into `one` what it expects and writes. */
  choose(one, register) {
    const choice = Math.floor(Math.random() * 10);
    const expected = this.latest[register];
    if (choice < 3) {
      one.kind = "read";
      return [READ, [register]];
    }
    if (choice === 3 || expected === null) {
      one.new = ++this.values;
      return [INSERT, [register, one.new]];
    }
    one.expected = expected;
    if (choice === 4) return [DELETE, [register, expected]];
    one.new = ++this.values;
    return [UPDATE, [one.new, register, expected]];
  }
}

/** Runs the clients for some seconds, and writes what they saw to a file. */
async function registers(client, seconds, clients, file) {
  // Driver 4.8.0 rejects so, without a handler, if a node dies while it reads the topology; the
  // attempt that the death began goes on.
  process.on("unhandledRejection", (error) => {
    if (!/control-connection\.js/.test(error.stack)) throw error;
  });
  await client.connect();
  console.log("connected");
  const load = new Load(client, seconds);
  await Promise.all(Array.from({ length: Number(clients) }, (_, number) => load.run(number)));
  fs.writeFileSync(file, load.history.map((one) => JSON.stringify(one) + "\n").join(""));
}

module.exports = { registers };
