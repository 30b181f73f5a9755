package telemetry

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// version is set by the linker (make build); empty elsewhere.
var version string

// A Build says what this binary was made from. Unknown parts are "unknown".
type Build struct {
	Version   string `json:"version"`    // a release such as v0.3.1, what git describes, or "devel"
	Revision  string `json:"revision"`   // full commit hash
	Time      string `json:"time"`       // of the commit, RFC 3339
	Modified  bool   `json:"modified"`   // built from a tree with uncommitted changes
	GoVersion string `json:"go_version"` // such as go1.26.8
	Platform  string `json:"platform"`   // such as linux/amd64
}

// Version is the version of this binary in one word, for banners and headers.
func Version() string { return ReadBuild().Version }

// ReadBuild reads what the linker and the go command recorded in this binary.
func ReadBuild() Build {
	build := Build{
		Version:   cmp.Or(version, "devel"),
		Revision:  "unknown",
		Time:      "unknown",
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build
	}
	// A binary from "go install ...@v1.2.3" knows its module's version.
	if version == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		build.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			build.Revision = setting.Value
		case "vcs.time":
			build.Time = setting.Value
		case "vcs.modified":
			build.Modified = setting.Value == "true"
		}
	}
	return build
}
