package report

import (
	_ "embed"
	"html/template"
)

//go:embed head.html
var headText string

// pageOf is the template of a page whose text begins with the head that such
// pages have in common.
func pageOf(name, text string) *template.Template {
	return template.Must(template.Must(template.New(name).Parse(text)).Parse(headText))
}
