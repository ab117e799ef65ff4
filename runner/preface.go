package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/runner/spec"
)

// prefaceOf is the instructions that go before a task: those of its files and, where the eval
// wants that, those of the skill under evaluation, or to invoke it.
func prefaceOf(eval *spec.Eval, task spec.ResolvedTask) (string, error) {
	parts := slices.Clone(task.Instructions)
	i := slices.IndexFunc(task.Skills, func(s spec.Skill) bool { return s.Name == eval.Skill })
	if eval.Config.InjectSkillBody && i >= 0 {
		body, err := task.Skills[i].Body()
		if err != nil {
			return "", fmt.Errorf("inject_skill_body: %w", err)
		}
		parts = append(parts, body)
	} else if eval.Config.SkillRouting && i >= 0 {
		parts = append(parts, fmt.Sprintf("Before anything else, see whether the task is one that the skill %s is for. Where it is, invoke that skill; where it is not, do without.", eval.Skill))
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
