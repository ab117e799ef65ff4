package main

import (
	"net/http"

	"github.com/waza-isolate/waza/model/stub"
	"github.com/waza-isolate/waza/runner/plan"
)

// modelScript reads the script of a model that is played in this process. The ids of its
// answers are digests of nothing secret.
func (j *job) modelScript(file string, data []byte) (plan.ModelScript, error) {
	script, err := stub.Parse(file, data)
	if err != nil {
		return nil, err
	}
	clean := func(doc []byte) []byte {
		doc, _ = j.secrets.JSON(doc)
		return doc
	}
	return func() http.Handler { return script.HandlerOver(clean) }, nil
}

func checkModelScript(file string, data []byte) error {
	_, err := stub.Parse(file, data)
	return err
}
