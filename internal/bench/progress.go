package bench

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows a bar on standard error if a person may be looking at it. The
// function it returns says that one of total parts is done, from any goroutine.
func Progress(what string, total int) (done func()) {
	var w io.Writer = io.Discard
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		w = os.Stderr
	}
	bar := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // it moves when parts are done, no goroutine needed
	)
	return func() { _ = bar.Add(1) } // a bar that cannot be drawn is no reason to fail
}
