package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/internal/files"
)

// mock answers each prompt without a model or tools, for trying out the other parts of an eval. Its wording
// is that of upstream waza: it repeats the prompt, the task's data, and the beginnings of the task's files.
func mock(in input.Input, stdout, events io.Writer) error {
	w := transcript.NewWriter(events)
	about, err := aboutTask(in)
	if err != nil {
		return err
	}
	err = in.EachPrompt(func(prompt string) error {
		answer := "Mock response for: " + prompt + about
		w.Prompt(prompt)
		w.Say(answer)
		_, err := io.WriteString(stdout, answer)
		return err
	})
	return errors.Join(err, w.Err())
}

// maxPreview is the maximum number of bytes of a file that mock repeats.
const maxPreview = 1024

// aboutTask returns the text that mock says after each prompt.
func aboutTask(in input.Input) (string, error) {
	var all strings.Builder
	for _, one := range []struct{ label, text string }{{"Task", in.TaskName}, {"Description", in.Description}} {
		if one.text != "" {
			fmt.Fprintf(&all, "\n%s: %s", one.label, one.text)
		}
	}
	var context map[string]json.RawMessage
	if len(in.Context) > 0 {
		if err := json.Unmarshal(in.Context, &context); err != nil {
			return "", fmt.Errorf("the task's context: %w", err)
		}
	}
	for i, name := range slices.Sorted(maps.Keys(context)) {
		if i == 0 {
			all.WriteString("\nContext:")
		}
		var text string
		if json.Unmarshal(context[name], &text) != nil {
			text = string(context[name])
		}
		fmt.Fprintf(&all, "\n  %s: %s", name, text)
	}
	if len(in.Files) == 0 {
		return all.String(), nil
	}
	fmt.Fprintf(&all, "\nAnalyzed %d file(s):", len(in.Files))
	workspace, err := files.Root(in.Workspace)
	if err != nil {
		return "", err
	}
	defer func() { _ = workspace.Close() }()
	for _, name := range in.Files {
		fmt.Fprintf(&all, "\n  - %s%s", name, beginning(workspace, name))
	}
	return all.String(), nil
}

// beginning returns the beginning of a file, starting on a new line. It returns "" if the file is empty, or
// if a hook removed or replaced it.
func beginning(workspace *os.Root, name string) string {
	file, err := files.OpenAt(workspace, name)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	begins, err := io.ReadAll(io.LimitReader(file, maxPreview+1))
	if err != nil || len(begins) == 0 {
		return ""
	}
	end := ""
	if len(begins) > maxPreview {
		begins, end = begins[:maxPreview], "...(truncated)"
	}
	return "\n" + strings.ToValidUTF8(string(begins), "\uFFFD") + end
}
