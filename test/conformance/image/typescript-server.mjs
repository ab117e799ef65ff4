#!/usr/bin/env node
// A server of the official TypeScript SDK with the tools, resources and prompts that the
// suite's scenarios of streams and subscriptions ask for.
//
//   typescript-server [-http=HOST:PORT [-stateless=true|false]]
//
// It takes the flags of everything-server. The SDK keeps no sessions either way.

import { createServer } from 'node:http';

import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const address = process.argv.find((arg) => arg.startsWith('-http='))?.slice('-http='.length);
if (address) {
	const [host, port] = address.split(':');
	const handler = createMcpHandler(() => newServer(() => handler.notify));
	const handle = toNodeHandler(handler), valid = localhostHostValidation();
	createServer((request, response) => valid(request, response) && handle(request, response)).listen(port, host);
} else {
	serveStdio(() => newServer((server) => ({
		toolsChanged: () => server.sendToolListChanged(), promptsChanged: () => server.sendPromptListChanged(),
	})));
}

// newServer returns a server. notifier returns what tells its clients of changed lists.
function newServer(notifier) {
	const list = { listChanged: true };
	const server = new McpServer({ name: 'typescript', version: '1' },
		{ capabilities: { tools: list, prompts: list, resources: { ...list, subscribe: true }, logging: {} } });
	const text = (text) => ({ content: [{ type: 'text', text }] });
	const tool = (name, inputSchema, run) => server.registerTool(name, { description: name, inputSchema }, run);
	tool('test_simple_text', z.object({}), () => text('This is a simple text response for testing.'));
	tool('test_error_handling', z.object({}), () => { throw new Error('This tool intentionally returns an error for testing'); });
	tool('test_tool_with_progress', z.object({}), async (_, context) => {
		const progressToken = context.mcpReq._meta?.progressToken;
		for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
			await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
		}
		return text(String(progressToken));
	});
	tool('test_trigger_tool_change', z.object({}), () => { notifier(server).toolsChanged(); return text('changed'); });
	tool('test_trigger_prompt_change', z.object({}), () => { notifier(server).promptsChanged(); return text('changed'); });
	server.registerResource('static', 'test://static-text', { mimeType: 'text/plain' },
		(uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'static' }] }));
	server.registerPrompt('test_simple_prompt', { description: 'simple' },
		() => ({ messages: [{ role: 'user', content: { type: 'text', text: 'This is a simple prompt for testing.' } }] }));
	return server;
}
