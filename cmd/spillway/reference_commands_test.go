package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandPages are one page for each verb, with the verbs below it, and their list.
func commandPages() map[string]string {
	var list strings.Builder
	list.WriteString("# Commands\n\n`spillway VERB --help` says the same. These pages are generated from the binary:\n`make generate`.\n\n" + header("command", "does"))
	pages := map[string]string{}
	for _, verb := range root().Commands() {
		if !verb.IsAvailableCommand() {
			continue
		}
		var page strings.Builder
		describe(&page, verb, 1)
		pages["commands/"+verb.Name()+".md"] = page.String()
		enlist(&list, verb, verb.Name()+".md")
	}
	pages["commands/README.md"] = list.String()
	return pages
}

// enlist adds a verb and those below it to the list.
func enlist(list *strings.Builder, verb *cobra.Command, page string) {
	list.WriteString(row(fmt.Sprintf("[`%s`](%s#%s)", verb.CommandPath(), page, strings.ReplaceAll(verb.CommandPath(), " ", "-")), plain(verb.Short)))
	for _, below := range verb.Commands() {
		if below.IsAvailableCommand() {
			enlist(list, below, page)
		}
	}
}

// describe writes the section of a verb, then those of the verbs below it.
func describe(page *strings.Builder, verb *cobra.Command, depth int) {
	fmt.Fprintf(page, "%s %s\n\n%s.\n", strings.Repeat("#", depth), verb.CommandPath(), plain(verb.Short))
	fmt.Fprintf(page, "\n```sh\n%s\n```\n", verb.UseLine())
	for paragraph := range strings.SplitSeq(verb.Long, "\n\n") {
		switch {
		case strings.TrimSpace(paragraph) == "":
		case strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n "): // laid out by hand
			fmt.Fprintf(page, "\n```text\n%s\n```\n", strings.TrimRight(paragraph, "\n "))
		default:
			fmt.Fprintf(page, "\n%s\n", plain(strings.TrimSpace(paragraph)))
		}
	}
	if verb.Example != "" {
		fmt.Fprintf(page, "\nExamples:\n\n```sh\n")
		for line := range strings.Lines(verb.Example) {
			page.WriteString(strings.TrimPrefix(strings.TrimRight(line, "\n"), "  ") + "\n")
		}
		page.WriteString("```\n")
	}
	if flags := verb.NonInheritedFlags(); flags.HasAvailableFlags() {
		page.WriteString("\n" + header("flag", "default", "meaning"))
		flags.VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden && flag.Name != "help" {
				page.WriteString(flagRow(flag))
			}
		})
	}
	for _, below := range verb.Commands() {
		if below.IsAvailableCommand() {
			page.WriteString("\n")
			describe(page, below, min(depth+1, 3))
		}
	}
}

func flagRow(flag *pflag.Flag) string {
	takes, usage := pflag.UnquoteUsage(flag)
	name := "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand + ", " + name
	}
	fallback := flag.DefValue
	switch {
	case takes == "" && fallback == "false": // not given
		fallback = ""
	case strings.HasPrefix(fallback, "["): // a list
		fallback = strings.Trim(fallback, "[]")
	}
	return row(code(strings.TrimSpace(name+" "+takes)), code(fallback), plain(usage))
}

// plain keeps Markdown from reading signs into text.
func plain(text string) string {
	return strings.NewReplacer("*", `\*`, "<", `\<`, "`", "\\`").Replace(text)
}
