// Runs the official conformance suite against one server and leaves what it found
// in results.json, in the working directory.
//
// Standard input says against which server, and which revision's scenarios:
//
//   direct REVISION COMMAND   the command's server, as a child of this process
//   NAME REVISION             the server that http://NAME/ reaches
//
// Either way the suite is given the same address on loopback, since some of its
// scenarios accept no other. Whether scenarios pass does not change the exit code.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const address = { host: '127.0.0.1', port: 3000 };
const cli = '/opt/suite/node_modules/@modelcontextprotocol/conformance/dist/index.js';

const [where, revision, command] = readFileSync(0, 'utf8').trim().split(/\s+/);
const close = where === 'direct' ? await serve(revision, command) : await forward(where);
const out = mkdtempSync(join(tmpdir(), 'results-'));
await run(revision, out);
const results = collect(out);
writeFileSync('results.json', JSON.stringify(results, null, 1) + '\n');
console.log(`${Object.keys(results).length} scenarios of ${revision}, ${where}`);
close();

// serve starts the server, with sessions for the revisions that have them.
async function serve(revision, command) {
	const sessions = revision < '2026-07-28';
	const server = spawn(command,
		[`-http=${address.host}:${address.port}`, `-stateless=${!sessions}`], { stdio: ['ignore', 'inherit', 'inherit'] });
	while (!(await answers())) {
		if (server.exitCode !== null) throw new Error(`${command} has ended`);
		await pause(20);
	}
	return () => server.kill();
}

async function answers() {
	const probe = net.connect(address);
	try {
		await once(probe, 'connect');
		return true;
	} catch {
		return false;
	} finally {
		probe.destroy();
	}
}

// forward carries connections to the server NAME as they are.
async function forward(name) {
	const open = new Set();
	const listener = net.createServer({ allowHalfOpen: true }, (near) => {
		const far = net.connect({ host: name, port: 80, allowHalfOpen: true });
		for (const [from, to] of [[near, far], [far, near]]) {
			open.add(from);
			from.pipe(to);
			from.on('error', () => to.destroy());
			from.on('close', () => { open.delete(from); to.destroy(); });
		}
	});
	listener.listen(address);
	await once(listener, 'listening');
	return () => { listener.close(); for (const socket of open) socket.destroy(); };
}

async function run(revision, out) {
	const suite = spawn(process.execPath, [cli, 'server',
		'--url', `http://localhost:${address.port}/mcp`, '--requirements', revision, '--output-dir', out],
		{ stdio: ['ignore', 'inherit', 'inherit'] });
	await once(suite, 'close');
}

// collect gathers the checks of every scenario. The suite also puts what it saw
// on the wire among them: a log line has no reference to the specification.
function collect(out) {
	const found = {};
	for (const dir of readdirSync(out).sort()) {
		const scenario = /^server-(.*)-\d{4}-\d\d-\d\dT[-\d]*Z$/.exec(dir)?.[1];
		if (!scenario) throw new Error(`not the results of a scenario: ${dir}`);
		found[scenario] = JSON.parse(readFileSync(join(out, dir, 'checks.json')))
			.filter((check) => check.status !== 'INFO' || check.specReferences)
			.map(({ id, status, errorMessage }) => ({ id, status, message: errorMessage }));
	}
	return found;
}
