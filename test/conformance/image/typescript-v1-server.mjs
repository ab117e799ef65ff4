#!/usr/bin/env node
// A server of version 1 of the official TypeScript SDK, for what typescript-server has not
// over HTTP: sessions, streams that resume, and requests to the client. Version 1 does not
// speak revisions without sessions. For these, version 2 responds, and notifications of
// changed lists go out as lines of chunked application/json, as the suite also accepts them.
//
//   typescript-v1-server -http=HOST:PORT [-stateless=true|false]

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CreateMessageResultSchema, SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, McpServer as McpServerV2 } from '@modelcontextprotocol/server';
import { z } from 'zod';

const flag = (name) => process.argv.find((arg) => arg.startsWith(`-${name}=`))?.slice(`-${name}=`.length);
const [host, port] = flag('http').split(':');
const handle = flag('stateless') === 'true' ? withoutSessions() : withSessions(), valid = localhostHostValidation();
createServer((request, response) => valid(request, response) && handle(request, response)).listen(port, host);

function withSessions() {
	const sessions = new Map();
	return async (request, response) => {
		const id = request.headers['mcp-session-id'];
		if (id && !sessions.has(id)) return response.writeHead(404).end();
		const transport = sessions.get(id) ?? new StreamableHTTPServerTransport({
			sessionIdGenerator: randomUUID, eventStore: eventStore(), retryInterval: 100,
			onsessioninitialized: (id) => { sessions.set(id, transport); },
			onsessionclosed: (id) => { sessions.delete(id); },
		});
		if (!id) await newServer(transport).connect(transport);
		await transport.handleRequest(request, response);
	};
}

function withoutSessions() {
	const handler = createMcpHandler(() => {
		const server = new McpServerV2(implementation, { capabilities });
		add(server, { tools: () => handler.notify.toolsChanged(), prompts: () => handler.notify.promptsChanged() });
		return server;
	});
	return toNodeHandler({
		async fetch(request, options) {
			const { method } = await request.clone().json().catch(() => ({}));
			const response = await handler.fetch(request, options);
			return method === 'subscriptions/listen' ? inLines(response) : response;
		},
	});
}

// inLines returns the response with each event's message as a line of JSON.
function inLines(response) {
	if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
	let event = '';
	const lines = new TransformStream({
		transform(text, out) {
			const events = (event + text).split('\n\n');
			event = events.pop();
			for (const [, data] of events.map((event) => /^data: (.*)$/m.exec(event)).filter(Boolean)) out.enqueue(data + '\n');
		},
	});
	const body = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(lines).pipeThrough(new TextEncoderStream());
	return new Response(body, { headers: { 'Content-Type': 'application/json' } });
}

const implementation = { name: 'typescript-v1', version: '1' };
const list = { listChanged: true };
const capabilities = { tools: list, prompts: list, resources: { ...list, subscribe: true }, logging: {} };
const text = (text) => ({ content: [{ type: 'text', text }] });

// add adds what servers of both versions have, and returns what adds tools. changed tells clients
// of changed lists.
function add(server, changed) {
	const tool = (name, inputSchema, run) => server.registerTool(name, { description: name, inputSchema: z.object(inputSchema) }, run);
	tool('test_simple_text', {}, () => text('This is a simple text response for testing.'));
	tool('test_error_handling', {}, () => { throw new Error('This tool intentionally returns an error for testing'); });
	tool('test_trigger_tool_change', {}, () => { changed.tools(); return text('changed'); });
	tool('test_trigger_prompt_change', {}, () => { changed.prompts(); return text('changed'); });
	server.registerResource('static', 'test://static-text', { mimeType: 'text/plain' },
		(uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'static' }] }));
	server.registerPrompt('test_simple_prompt', { description: 'simple' },
		() => ({ messages: [{ role: 'user', content: { type: 'text', text: 'This is a simple prompt for testing.' } }] }));
	return tool;
}

// newServer returns a server of version 1 for a session.
function newServer(transport) {
	const server = new McpServer(implementation, { capabilities });
	const tool = add(server, { tools: () => server.sendToolListChanged(), prompts: () => server.sendPromptListChanged() });
	tool('test_tool_with_logging', {}, async (_, { sendNotification }) => {
		for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
			await sendNotification({ method: 'notifications/message', params: { level: 'info', data } });
		}
		return text('logged');
	});
	tool('test_tool_with_progress', {}, async (_, { sendNotification, _meta }) => {
		for (const progress of [0, 50, 100]) {
			await sendNotification({ method: 'notifications/progress', params: { progressToken: _meta?.progressToken ?? 0, progress, total: 100 } });
		}
		return text('done');
	});
	tool('test_sampling', { prompt: z.string() }, async ({ prompt }, { sendRequest }) => {
		const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
		const { content } = await sendRequest({ method: 'sampling/createMessage', params: { messages, maxTokens: 100 } }, CreateMessageResultSchema);
		return text('LLM response: ' + content.text);
	});
	tool('test_reconnection', {}, async (_, { requestId }) => {
		transport.closeSSEStream(requestId);
		await new Promise((resolve) => setTimeout(resolve, 100));
		return text('reconnected');
	});
	for (const schema of [SubscribeRequestSchema, UnsubscribeRequestSchema]) server.server.setRequestHandler(schema, () => ({}));
	return server;
}

// eventStore keeps a session's events, by number.
function eventStore() {
	const events = [];
	return {
		async storeEvent(stream, message) { return String(events.push({ stream, message })); },
		async replayEventsAfter(last, { send }) {
			const { stream } = events[last - 1];
			for (const [i, event] of events.entries()) {
				if (i >= last && event.stream === stream && event.message.jsonrpc) await send(String(i + 1), event.message);
			}
			return stream;
		},
	};
}
