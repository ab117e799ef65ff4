package runner

import (
	"bytes"
	"encoding/json"

	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/redact"
)

// redacted is the record as it may be written: free text without secrets. What
// names things (tasks, servers, graders) stays, or nothing would find them.
func (tr *trialRun) redacted() evidence.Trial {
	secrets, record := tr.run.o.Secrets, tr.record
	for _, text := range []*string{&record.Prompt, &record.Reason, &record.Signal, &record.FinalOutput} {
		*text = secrets.String(*text)
	}
	for i := range record.Gaps {
		record.Gaps[i] = secrets.String(record.Gaps[i])
	}
	for i := range record.Servers {
		record.Servers[i].Image = secrets.String(record.Servers[i].Image)
	}
	record.Plan = redactJSON(secrets, record.Plan)
	return record
}

// redactJSON takes secrets out of the strings of a valid JSON document, and
// nothing else: the digits of one may stand in a number, its letters in a key.
func redactJSON(secrets *redact.Set, doc json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	for len(doc) > 0 {
		start := bytes.IndexByte(doc, '"')
		if start < 0 {
			break
		}
		end := start + stringLength(doc[start:])
		out.Write(doc[:start])
		out.Write(redactString(secrets, doc[start:end], isKey(doc[end:])))
		doc = doc[end:]
	}
	out.Write(doc)
	return out.Bytes()
}

// stringLength is the length of the JSON string that doc begins with.
func stringLength(doc []byte) int {
	for i := 1; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(doc)
}

func isKey(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

func redactString(secrets *redact.Set, quoted []byte, key bool) []byte {
	var text string
	if key || json.Unmarshal(quoted, &text) != nil {
		return quoted
	}
	clean, found := secrets.Bytes([]byte(text))
	if found == 0 {
		return quoted
	}
	quoted, _ = json.Marshal(string(clean)) // a string always marshals
	return quoted
}
