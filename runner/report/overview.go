package report

// Overview is the page of a run as a whole.
func Overview(r Run, l Links) Page {
	return Page{ID: l.ID(PathOverview), Title: r.Results.EvalName, name: "overview", data: overview{r, l}}
}

type overview struct {
	Run
	Links Links
}

// Trial is where a trial's page is.
func (o overview) Trial(task string, number int) any { return o.Links.To(TrialPath(task, number)) }
