package attacks

// Defenses against protocol attacks.

func recording() Defence {
	return without(guestBuild, "frames on record", "RecordedFrames")
}

func recorded() Defence {
	return without(leakyBuild, "what an agent sends is on record before it goes on", "RecordedRequests")
}

func oneMeaning() Defence {
	return without(wireBuild, "a gap where a message can be read in two ways", "OneMeaning")
}

func foldedKeys() Defence {
	return without(wireBuild, "a gap where a key may be taken for another", "FoldedKeys")
}

func fewValues() Defence {
	return without(wireBuild, "a message has so many values", "FewValues")
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
	return kept("requests are read by Go's net/http, and written anew", "no line of ours reads headers or chunks; what is refused there reaches no server")
}

func noModel() Defence {
	return kept("models are asked below their providers' URLs alone", "tests of model/gateway hold it against these and more; here is nothing but servers")
}

func countedFrames() Defence {
	return without(wireBuild, "what a server sends is counted", "CountedMessages")
}

func shortLines() Defence {
	return without(wireBuild, "a server is ended for a line that is too long", "ShortLines")
}

func typedIDs() Defence {
	return without(wireBuild, "ids of another type are other ids", "TypedIDs")
}

func firstAnswer() Defence {
	return without(wireBuild, "the first answer counts", "FirstAnswer")
}

func conversationsApart() Defence {
	return without(wireBuild, "an answer is of its own conversation", "OwnConversation")
}

func inOrder() Defence {
	return kept("an answer is to what was asked before it", "no line says so: frames are read in their order, and what answers nothing is kept for nobody")
}

func agentsAnswers() Defence {
	return without(wireBuild, "an agent's answers are its own", "OwnAnswers")
}

func cancelled() Defence {
	return without(wireBuild, "what was cancelled stays so", "Cancellation")
}

func timed() Defence {
	return without(wireBuild, "a request has its time", "Timeouts")
}

func compared() Defence {
	return without(wireBuild, "lists of tools are compared", "ComparedTools")
}

func oneOrigin() Defence {
	return without(wireBuild, "remote servers are of one origin", "OneOrigin")
}

func boundedMemory() Defence {
	return kept("messages that are held at once have so many bytes", "how much is held without it depends on how busy the machine is: tests of mcp/proxy have answers that nobody reads")
}

func headersInTime() Defence {
	return without(wireBuild, "a request's headers have their time", "HeaderTimeout")
}
