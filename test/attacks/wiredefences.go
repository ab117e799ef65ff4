package attacks

// Defenses against protocol attacks.

func recording() Defence {
	return without(guestBuild, "all frames are recorded", "RecordedFrames")
}

func recorded() Defence {
	return without(leakyBuild, "messages of the agent are recorded before they are forwarded", "RecordedRequests")
}

func oneMeaning() Defence {
	return without(wireBuild, "a gap for every message that can be read in two ways", "OneMeaning")
}

func foldedKeys() Defence {
	return without(wireBuild, "a gap for every key that can be mistaken for another", "FoldedKeys")
}

func fewValues() Defence {
	return without(wireBuild, "a limit of values in a message", "FewValues")
}

func filtered() Defence {
	return without(wireBuild, "calls of hidden tools are refused", "HiddenTools")
}

func filteredHeaders() Defence {
	return without(wireBuild, "calls of hidden tools by headers are refused", "HiddenInHeaders")
}

func oneCharset() Defence {
	return without(wireBuild, "requests are UTF-8", "OneCharset")
}

func noEncoding() Defence {
	return without(wireBuild, "requests are not compressed", "NoEncoding")
}

func goHTTP() Defence {
	return kept("requests are parsed by Go's net/http and written anew", "waza does not parse headers or chunks itself; what net/http refuses reaches no server")
}

func noModel() Defence {
	return kept("model requests only go to paths below the provider's URL", "tests of model/gateway try these paths and more; this suite has only servers")
}

func countedFrames() Defence {
	return without(wireBuild, "limits on what a server sends", "CountedMessages")
}

func shortLines() Defence {
	return without(wireBuild, "a server is stopped for a line that is too long", "ShortLines")
}

func typedIDs() Defence {
	return without(wireBuild, "ids of different types are different ids", "TypedIDs")
}

func firstAnswer() Defence {
	return without(wireBuild, "the first answer counts", "FirstAnswer")
}

func conversationsApart() Defence {
	return without(wireBuild, "a response only answers its own session", "OwnConversation")
}

func inOrder() Defence {
	return kept("a response only answers an earlier request", "there is no code to disable: frames are read in order, and a response without a request is not kept")
}

func agentsAnswers() Defence {
	return without(wireBuild, "the agent's responses do not answer its own requests", "OwnAnswers")
}

func cancelled() Defence {
	return without(wireBuild, "a cancelled request stays cancelled", "Cancellation")
}

func timed() Defence {
	return without(wireBuild, "a time limit for requests", "Timeouts")
}

func compared() Defence {
	return without(wireBuild, "tool lists are compared", "ComparedTools")
}

func oneOrigin() Defence {
	return without(wireBuild, "requests to a remote server stay on its origin", "OneOrigin")
}

func boundedMemory() Defence {
	return kept("a limit of bytes in messages held in memory", "without the limit, the amount depends on the load of the machine; tests of mcp/proxy have responses that nobody reads")
}

func headersInTime() Defence {
	return without(wireBuild, "a time limit for request headers", "HeaderTimeout")
}
