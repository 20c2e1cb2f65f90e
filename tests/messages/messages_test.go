package messages

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/messages.txt anew")

func TestList(t *testing.T) {
	all, err := Collect("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := List(all)
	if *update {
		if err := os.WriteFile("../../docs/messages.txt", []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
