package results

// Reports says of each server of the trial how it fared.
func (t Trial) Reports() []ServerReport { return serverReports(t) }
