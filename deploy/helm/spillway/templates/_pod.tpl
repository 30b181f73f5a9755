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
{{- if .Values.secret.adminToken }}
- name: access
  mountPath: /etc/spillway-access
  readOnly: true
{{- end }}
{{- if ne .Values.access.adminTLS "off" }}
- name: access-tls
  mountPath: /etc/spillway-access-tls
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The volumes of those mounts: (list $ CONFIGMAP). */}}
{{- define "spillway.volumes" -}}
{{- $v := (index . 0).Values -}}
- name: config
  configMap:
    name: {{ index . 1 }}
{{- if $v.secret.adminToken }}
- name: access
  secret:
    secretName: {{ $v.secret.name }}
    items:
      - key: {{ $v.secret.adminToken }}
        path: admin-token
{{- end }}
{{- if ne $v.access.adminTLS "off" }}
- name: access-tls
  secret:
    secretName: {{ required "access.tlsSecret: is empty; name the Secret with tls.crt, tls.key and ca.crt, or set access.adminTLS to off" $v.access.tlsSecret }}
{{- end }}
{{- with $v.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A probe of an admin listener: (list $ PATH PORT). Probes verify no certificate. */}}
{{- define "spillway.ask" -}}
httpGet:
  path: {{ index . 1 }}
  port: {{ index . 2 }}
  {{- if ne (index . 0).Values.access.adminTLS "off" }}
  scheme: HTTPS
  {{- end }}
{{- end -}}

{{/* A Pod made before the configuration changed must be replaced. */}}
{{- define "spillway.checksum" -}}
{{- if .Values.configMap.create -}}
checksum/config: {{ list (include "spillway.config" .) (toYaml .Values.profiles) | join "\n" | sha256sum }}
{{- end -}}
{{- end -}}
