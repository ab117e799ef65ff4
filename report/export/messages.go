package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// message is a message of an agent with the tools that it used: a model response, or a
// single tool use if no gateway saw the responses.
type message struct {
	at   time.Time // zero if unknown
	text string
	turn *view.Turn // the model's turn; nil if no gateway saw it
	uses []use
	note string // text about the agent, instead of all other fields
}

// use is a tool use with its result.
type use struct {
	id        string // unique in the trial
	name      string
	arguments json.RawMessage // a JSON object
	answered  bool
	result    string
	call      *evidence.Call // the call that executed the use; nil if none did
}

// messenger converts the steps of a conversation to messages.
type messenger struct {
	calls map[int]*evidence.Call // by number
	asked map[string]bool        // IDs of uses in model responses
	made  map[int]bool           // calls that execute uses in model responses
	ids   map[string]bool        // used so far
}

// messagesOf returns what the agent of a trial said and used, in order.
func messagesOf(c view.Conversation) ([]message, error) {
	m := messenger{map[int]*evidence.Call{}, map[string]bool{}, map[int]bool{}, map[string]bool{}}
	for _, step := range c.Steps {
		switch {
		case step.Call != nil:
			m.calls[step.Call.Seq] = step.Call
		case step.Turn != nil:
			for _, u := range step.Turn.Uses {
				m.asked[u.ID], m.made[u.Call] = true, true
			}
		}
	}
	var all []message
	for _, step := range c.Steps {
		one, err := m.message(step)
		if err != nil {
			return nil, err
		}
		if one.note != "" || one.text != "" || one.turn != nil || len(one.uses) > 0 {
			all = append(all, one)
		}
	}
	if output := cut(c.Trial.FinalOutput); strings.TrimSpace(output) != "" && strings.TrimSpace(lastText(all)) != strings.TrimSpace(output) {
		all = append(all, message{at: c.Trial.AgentEnd, text: output})
	}
	return all, nil
}

// lastText returns the text of the last message, or "" if the agent used a tool after it.
func lastText(all []message) string {
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].text
}

// message returns the message of a step. It is empty if another message includes the step.
func (m *messenger) message(step view.Step) (message, error) {
	switch {
	case step.Turn != nil:
		return m.turn(step.Turn)
	case step.Own != nil && step.Own.ID != "" && m.asked[step.Own.ID]:
		return message{}, nil
	case step.Own != nil:
		u := m.use(step.Own.ID, step.Own.Tool, step.Own.Arguments)
		result, err := results.ResultOf(*step.Own)
		if result != nil {
			u.answered, u.result = true, cut(result.Content)
		}
		return message{uses: []use{u}}, err
	case step.Claim != nil:
		return message{note: fmt.Sprintf("The agent's transcript has a call of %s that was never made.", cut(step.Claim.Name))}, nil
	case step.Said != "":
		return message{text: cut(step.Said)}, nil
	case m.made[step.Call.Seq]:
		return message{}, nil
	}
	u := m.use("", step.Call.Server+"-"+step.Call.Tool, step.Call.Arguments)
	err := u.carriedOut(step.Call)
	return message{at: step.Call.Start, uses: []use{u}}, err
}

func (m *messenger) turn(t *view.Turn) (message, error) {
	one := message{at: t.Start, text: cut(cmp.Or(t.Text, t.Problem)), turn: t}
	for _, asked := range t.Uses {
		u := m.use(asked.ID, asked.Name, asked.Arguments)
		call := m.calls[asked.Call]
		switch {
		case call != nil:
			if err := u.carriedOut(call); err != nil {
				return one, err
			}
		case asked.Result != nil:
			u.answered, u.result = true, cut(asked.Result.Text)
		}
		one.uses = append(one.uses, u)
	}
	return one, nil
}

// use returns a use without a result. A missing or duplicate id is replaced by a unique
// one.
func (m *messenger) use(id, name string, arguments json.RawMessage) use {
	id = cut(cmp.Or(id, "call"))
	if m.ids[id] || id == "call" {
		id = fmt.Sprintf("%s-%d", id, len(m.ids)+1)
	}
	m.ids[id] = true
	return use{id: id, name: cut(name), arguments: object(arguments)}
}

// carriedOut sets the result of a use from the call that executed it.
func (u *use) carriedOut(call *evidence.Call) error {
	raw, err := call.Result.Raw()
	u.call, u.answered = call, true
	u.result = cut(results.CallText(*call, raw))
	return err
}
