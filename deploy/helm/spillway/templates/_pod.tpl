{{/* What every Pod has in common. Any UID will do, so none is named: the image says 65532. */}}
{{- define "spillway.pod" -}}
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What every container has in common, but for its name, arguments and ports. */}}
{{- define "spillway.container" -}}
image: {{ include "spillway.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "spillway.env" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secret.name }}
      key: {{ .Values.secret.databaseURL }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* For who waits for bundles: the predictor, or the router that is one. */}}
{{- define "spillway.listenEnv" -}}
{{- if .Values.secret.listenDatabaseURL -}}
- name: LISTEN_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secret.name }}
      key: {{ .Values.secret.listenDatabaseURL }}
{{- end -}}
{{- end -}}

{{- define "spillway.mounts" -}}
- name: config
  mountPath: /etc/spillway
  readOnly: true
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "spillway.volumes" -}}
- name: config
  configMap:
    name: {{ include "spillway.configMap" . }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A Pod made before the configuration changed must be replaced. */}}
{{- define "spillway.checksum" -}}
{{- if .Values.configMap.create -}}
checksum/config: {{ list (include "spillway.config" .) (toYaml .Values.profiles) | join "\n" | sha256sum }}
{{- end -}}
{{- end -}}
