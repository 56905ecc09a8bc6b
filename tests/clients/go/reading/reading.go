// Package reading is what the clients of this folder have in common: what they are asked for, and what they print.
package reading

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Patience is how long a client may take for a whole topic.
const Patience = 60 * time.Second

// Asked is what to read: partition 0 of a topic from offset 0 to the one before End.
type Asked struct {
	Bootstrap   string
	Topic       string
	End         int64
	IsCommitted bool
	FetchBytes  int32
}

// Arguments reads BOOTSTRAP TOPIC END ISOLATION FETCH_BYTES.
func Arguments() Asked {
	if len(os.Args) != 6 {
		Fail("arguments: BOOTSTRAP TOPIC END read_committed|read_uncommitted FETCH_BYTES")
	}
	end, err := strconv.ParseInt(os.Args[3], 10, 64)
	Check(err)
	fetchBytes, err := strconv.ParseInt(os.Args[5], 10, 32)
	Check(err)
	committed := os.Args[4] == "read_committed"
	return Asked{os.Args[1], os.Args[2], end, committed, int32(fetchBytes)}
}

// Shown prints what a client gives to its application: "offset key value" a line, in base64, "-" for null.
type Shown struct {
	out  *bufio.Writer
	last int64
	end  int64
}

// NewShown begins before offset 0.
func NewShown(asked Asked) *Shown {
	return &Shown{out: bufio.NewWriter(os.Stdout), last: -1, end: asked.End}
}

// Take prints one message, and says whether it was the last one. The program ends at an offset that doesn't rise.
func (shown *Shown) Take(offset int64, key, value []byte) bool {
	if offset <= shown.last {
		Fail("offset %d was given after %d", offset, shown.last)
	}
	shown.last = offset
	fmt.Fprintf(shown.out, "%d %s %s\n", offset, text(key), text(value))
	if offset < shown.end-1 {
		return false
	}
	Check(shown.out.Flush())
	return true
}

// Deadline is a context that ends the program with what was read so far.
func (shown *Shown) Deadline() context.Context {
	time.AfterFunc(Patience, func() { Fail("read up to offset %d of %d in %s", shown.last, shown.end, Patience) })
	return context.Background()
}

// Check ends the program with an error.
func Check(err error) {
	if err != nil {
		Fail("%v", err)
	}
}

// Fail ends the program.
func Fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

func text(data []byte) string {
	if data == nil {
		return "-"
	}
	return "=" + base64.StdEncoding.EncodeToString(data)
}
