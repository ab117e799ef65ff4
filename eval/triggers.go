package eval

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// triggerTests is the name of a file that is read if it is in the eval's directory.
const triggerTests = "trigger_tests.yaml"

// TriggerTests is a trigger_tests.yaml: prompts that should trigger a skill, and prompts that should not.
type TriggerTests struct {
	Skill                  string          `json:"skill"`
	ShouldTriggerPrompts   []TriggerPrompt `json:"should_trigger_prompts,omitempty"`
	ShouldNotTriggerPrompt []TriggerPrompt `json:"should_not_trigger_prompts,omitempty"`
}

// TriggerPrompt is one prompt.
type TriggerPrompt struct {
	Prompt     string `json:"prompt"`
	Reason     string `json:"reason,omitempty"`
	Confidence string `json:"confidence,omitempty" enum:"high medium"`
}

// TriggerTest marks a task that is a prompt of trigger_tests.yaml.
type TriggerTest struct {
	ShouldTrigger bool
	Confidence    string
}

// triggers returns a task for each prompt in the trigger_tests.yaml next to the eval, with a grader for
// whether the agent invoked the skill. It returns none for agents that do not invoke skills.
func (l *loader) triggers() []ResolvedTask {
	path := filepath.Join(l.eval.Dir(), triggerTests)
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	doc, err := l.open(path)
	if err != nil {
		l.fail(err)
		return nil
	}
	var file TriggerTests
	doc.Decode(&file)
	if len(file.ShouldTriggerPrompts)+len(file.ShouldNotTriggerPrompt) == 0 {
		doc.Problemf(strictyaml.Path{"should_trigger_prompts"}, "%s has no prompt; give it should_trigger_prompts or should_not_trigger_prompts", triggerTests)
	}
	if doc.Err() != nil {
		return nil
	}
	if executor := l.eval.Config.Executor; evidence.AsksNoModel(executor) {
		doc.Warnf(strictyaml.Path{"skill"}, "its prompts are not run, and trigger_accuracy is not measured: executor %s invokes no skill", executor)
		return nil
	}
	var tasks []ResolvedTask
	for _, list := range []struct {
		should  bool
		name    string
		prompts []TriggerPrompt
	}{{true, "should", file.ShouldTriggerPrompts}, {false, "should-not", file.ShouldNotTriggerPrompt}} {
		for i, p := range list.prompts {
			tasks = append(tasks, l.trigger(doc, path, file.Skill, fmt.Sprintf("trigger_tests-%s-%d", list.name, i+1), list.should, p))
		}
	}
	return tasks
}

func (l *loader) trigger(doc *strictyaml.Document, path, skill, id string, should bool, p TriggerPrompt) ResolvedTask {
	config := map[string]any{"forbidden_skills": []string{skill}}
	if should {
		config = map[string]any{"required_skills": []string{skill}, "mode": "any_order"}
	}
	data, _ := json.Marshal(config) // strings always encode
	r := resolver{loader: l, doc: doc, task: &Task{}}
	return ResolvedTask{
		ID: id, Name: id, Description: p.Reason, Path: path, Prompt: p.Prompt,
		Env: maps.Clone(l.eval.Config.Isolation.Agent.Env), Skills: r.taskSkills(),
		Timeout: time.Duration(l.eval.Config.TimeoutSeconds) * time.Second,
		Graders: []evidence.GraderSpec{{Name: "trigger", Type: "skill_invocation", Weight: 1, Config: data}},
		Servers: l.servers,
		Trigger: &TriggerTest{ShouldTrigger: should, Confidence: p.Confidence},
	}
}
