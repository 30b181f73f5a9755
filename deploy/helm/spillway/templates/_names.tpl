{{/* 44 characters and "-trainer" are as long as the name of a CronJob may be. */}}
{{- define "spillway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 44 | trimSuffix "-" -}}
{{- else if contains "spillway" .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-spillway" .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the Pods of one component: (list $ "router"). It must not change. */}}
{{- define "spillway.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: spillway
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "spillway.labels" -}}
{{- $root := index . 0 -}}
{{ include "spillway.selector" . }}
app.kubernetes.io/version: {{ $root.Values.image.tag | default $root.Chart.AppVersion | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- end -}}

{{- define "spillway.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "spillway.configMap" -}}
{{- if .Values.configMap.create -}}
{{- .Values.configMap.name | default (include "spillway.fullname" .) -}}
{{- else -}}
{{- required "configMap.name: is empty; name the ConfigMap that has spillway.yaml, or let the chart create it" .Values.configMap.name -}}
{{- end -}}
{{- end -}}

{{- define "spillway.pool" -}}
{{- .Values.inferencePool.name | default (include "spillway.fullname" .) -}}
{{- end -}}
