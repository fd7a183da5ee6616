// The TypeScript SDK's client against `mvm mcp`: node client.mjs SDK MVM NAME FOLDER. Throws where something is not as it
// should be; the client itself checks every result against the schemas of its tool.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

const [sdk, mvm, name, folder] = process.argv.slice(2);
const { Client } = await import(`${sdk}/dist/esm/client/index.js`);
const { StdioClientTransport } = await import(`${sdk}/dist/esm/client/stdio.js`);

const client = new Client({ name: "test", version: "1" });
const faults = [];
client.onerror = (error) => faults.push(error);
const transport = new StdioClientTransport({ command: mvm, args: ["mcp", name, "--no-redact"], env: process.env });
await client.connect(transport);
assert.equal(client.getServerVersion().name, "mvm");
assert.match(client.getInstructions(), new RegExp(name));
await client.ping();

const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ["run", "read_file", "write_file", "list_files", "network_refusals"]);
const call = async (tool, args, options) => {
  const result = await client.callTool({ name: tool, arguments: args }, undefined, options);
  return { ...result.structuredContent, isError: result.isError };
};

const exit = await call("run", { argv: ["sh", "-c", "echo out; exit 3"] });
assert.deepEqual([exit.status, exit.exit_code, exit.stdout, exit.isError], ["command_failed", 3, "out\n", false]);
assert.equal(exit.sandbox, name);
assert.match(exit.run_id, /^run-/);

await call("write_file", { path: `${folder}/a`, content: "grüße\n", mode: "0600" });
assert.equal(readFileSync(`${folder}/a`, "utf8"), "grüße\n");
assert.equal((await call("read_file", { path: `${folder}/a` })).content, "grüße\n");
assert.ok((await call("list_files", { path: folder })).entries.some((entry) => entry.name === "a"));

// Bad ones of each kind fit the schemas too.
assert.equal((await call("run", { argv: [] })).status, "invalid");
assert.equal((await call("read_file", { path: `${folder}/none` })).status, "file_error");
assert.equal((await call("network_refusals", {})).isError, true);
await assert.rejects(client.callTool({ name: "up", arguments: {} }), /no tool up/);

// Cancelled, a command ends with its children: the fifo that they hold comes to its end.
execFileSync("mkfifo", [`${folder}/fifo`]);
const giving_up = new AbortController();
const cancelled = assert.rejects(
  call("run", { argv: ["sh", "-c", `exec 9>${folder}/fifo; touch ${folder}/up; sleep 1000 & sleep 1000`] },
    { signal: giving_up.signal }));
const reader = call("run", { argv: ["cat", `${folder}/fifo`] });
while (!existsSync(`${folder}/up`)) await new Promise((wake) => setTimeout(wake, 5));
giving_up.abort("enough");
await cancelled;
assert.equal((await reader).exit_code, 0);

const many = await Promise.all([1, 2, 3, 4].map((i) => call("run", { argv: ["echo", `${i}`] })));
assert.deepEqual(many.map((result) => result.stdout), ["1\n", "2\n", "3\n", "4\n"]);

await client.close();
assert.deepEqual(faults, []);
