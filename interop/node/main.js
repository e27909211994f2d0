// The Node.js driver's programs of the interop tests: `registers` (test_conditional_drivers.py) and
// `login` (test_driver_security.py). Usage:
//
//   node main.js login HOST PORT
//   node main.js registers HOST PORT SECONDS CLIENTS FILE
"use strict";
const fs = require("fs");
const cassandra = require("cassandra-driver");
const { registers } = require("./registers.js");

/** Returns the client that the arguments and the environment ask for. */
function clientOf(host, port) {
  const { policies } = cassandra;
  const options = {
    contactPoints: [`${host}:${port}`],
    localDataCenter: "datacenter1",
    socketOptions: { connectTimeout: 20000, readTimeout: 20000 },
    // A node that was killed is back within a second.
    policies: { reconnection: new policies.reconnection.ConstantReconnectionPolicy(100) },
  };
  const { CQL_USER, CQL_PASSWORD, CQL_AUTHORITY, CQL_CERTIFICATE, CQL_TLS } = process.env;
  if (CQL_USER)
    options.authProvider = new cassandra.auth.PlainTextAuthProvider(CQL_USER, CQL_PASSWORD);
  if (CQL_AUTHORITY) {
    options.sslOptions = {
      ca: [fs.readFileSync(CQL_AUTHORITY)],
      rejectUnauthorized: true,
      servername: "localhost",
      checkServerIdentity: () => undefined,
    };
    if (CQL_TLS)
      options.sslOptions.minVersion = options.sslOptions.maxVersion = `TLSv${CQL_TLS}`;
    if (CQL_CERTIFICATE)
      options.sslOptions.cert = options.sslOptions.key = fs.readFileSync(CQL_CERTIFICATE);
  }
  return new cassandra.Client(options);
}

/** Connects, and prints the node's version or the driver's error. */
async function login(client) {
  try {
    await client.connect();
  } catch (error) {
    const causes = Object.values(error.innerErrors || {}).map((one) => one.message);
    console.log(`error: ${[error.message, ...causes].join("; ")}`);
    return;
  }
  const answer = await client.execute("SELECT release_version FROM system.local");
  console.log(`ok: ${answer.first().release_version}`);
}

async function main() {
  const [command, host, port, ...rest] = process.argv.slice(2);
  const commands = { login, registers };
  if (!commands[command]) throw new Error(`there is no command ${command}`);
  const client = clientOf(host, port);
  await commands[command](client, ...rest);
}

// `exit` without a shutdown of the client, which may wait for a connection that a kill has broken.
main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
