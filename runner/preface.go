package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/eval"
)

// prefaceOf is the instructions that go before a task: those of its files and, where the eval
// wants that, those of the skill under evaluation, or to invoke it.
func prefaceOf(e *eval.Eval, task eval.ResolvedTask) (string, error) {
	parts := slices.Clone(task.Instructions)
	i := slices.IndexFunc(task.Skills, func(s eval.Skill) bool { return s.Name == e.Skill })
	if e.Config.InjectSkillBody && i >= 0 {
		body, err := task.Skills[i].Body()
		if err != nil {
			return "", fmt.Errorf("inject_skill_body: %w", err)
		}
		parts = append(parts, body)
	} else if e.Config.SkillRouting && i >= 0 {
		parts = append(parts, fmt.Sprintf("Before anything else, see whether the task is one that the skill %s is for. Where it is, invoke that skill; where it is not, do without.", e.Skill))
	}
	return strings.Join(parts, "\n\n"), nil
}

// prefaced is the prompt of an agent that is somebody's program, behind the preface. Executor
// llm has that in its system prompt, and mock and script follow no instructions.
func prefaced(executor, preface, prompt string) string {
	if preface == "" || agents.IsOurs(executor) {
		return prompt
	}
	return preface + "\n\n" + prompt
}
