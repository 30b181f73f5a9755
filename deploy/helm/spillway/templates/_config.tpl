{{/* spillway.yaml: what the chart sets, and over it what the user does. */}}
{{- define "spillway.config" -}}
{{- $v := .Values -}}
{{- range list "store.spool_dir" "router.listen" "router.admin" "router.extproc_listen" "router.share_listen"
    "router.share_salt_file" "router.share_tls" "router.share_cert_file" "router.share_key_file" "router.share_ca_file"
    "router.drain_delay" "router.drain_timeout" "router.forecast.address"
    "access.cert_file" "access.key_file" "access.ca_file" "access.admin_tls" "access.admin_token_file" "access.open_metrics"
    "predictor.in_process" "predictor.listen" "predictor.admin" "trainer.schedule" "trainer.admin" -}}
{{- $at := $v.config -}}
{{- $set := true -}}
{{- range splitList "." . -}}
{{- if and (kindIs "map" $at) (hasKey $at .) -}}{{- $at = get $at . -}}{{- else -}}{{- $at = "" }}{{ $set = false -}}{{- end -}}
{{- end -}}
{{- if $set -}}
{{- fail (printf "config.%s: is set by the chart, since other objects depend on it; see values.yaml for the value behind it" .) -}}
{{- end -}}
{{- end -}}
{{- if and (hasKey $v.config "predictor") (not (kindIs "map" $v.config.predictor)) -}}
{{- fail "config.predictor: want keys; set predictor.mode to in-process" -}}
{{- end -}}

{{- $router := dict
    "listen" ":8080"
    "admin" ":8081"
    "drain_delay" (printf "%ds" (int $v.router.drainDelaySeconds))
    "drain_timeout" (printf "%ds" (int $v.router.drainTimeoutSeconds))
    "max_held_bytes" 268435456 -}} {{- /* a quarter of router.resources' memory */ -}}
{{- $predictor := dict -}}
{{- if eq $v.predictor.mode "sidecar" -}}
{{- $_ := set $router "forecast" (dict "address" "unix:///run/spillway/predictor.sock") -}}
{{- $predictor = dict "listen" "unix:///run/spillway/predictor.sock" "admin" ":8082" -}}
{{- else -}}
{{- $predictor = dict "in_process" true -}}
{{- end -}}

{{- if $v.share.enabled -}}
{{- $_ := set $router "share_listen" ":8084" -}}
{{- $_ := set $router "peers" (list (printf "%s-pods:8084" (include "spillway.fullname" .))) -}}
{{- $_ := set $router "share_salt_file" "/etc/spillway-share/salt" -}}
{{- $_ := set $router "share_tls" $v.share.tls -}}
{{- if ne $v.share.tls "off" -}}
{{- $_ := set $router "share_cert_file" "/etc/spillway-share-tls/tls.crt" -}}
{{- $_ := set $router "share_key_file" "/etc/spillway-share-tls/tls.key" -}}
{{- $_ := set $router "share_ca_file" "/etc/spillway-share-tls/ca.crt" -}}
{{- end -}}
{{- end -}}

{{- $access := dict -}}
{{- if $v.secret.adminToken -}}
{{- $_ := set $access "admin_token_file" "/etc/spillway-access/admin-token" -}}
{{- end -}}
{{- if ne $v.access.adminTLS "off" -}}
{{- $_ := set $access "admin_tls" $v.access.adminTLS -}}
{{- $_ := set $access "cert_file" "/etc/spillway-access-tls/tls.crt" -}}
{{- $_ := set $access "key_file" "/etc/spillway-access-tls/tls.key" -}}
{{- $_ := set $access "ca_file" "/etc/spillway-access-tls/ca.crt" -}}
{{- end -}}
{{- if $v.access.openMetrics -}}
{{- $_ := set $access "open_metrics" true -}}
{{- end -}}

{{- $engines := $v.engines -}}
{{- if $v.inferencePool.enabled -}}
{{- $_ := set $router "extproc_listen" ":9002" -}}
{{- if $v.inferencePool.tlsSecret -}}
{{- $_ := set $router "extproc_tls" "files" -}}
{{- $_ := set $router "extproc_cert_file" "/etc/spillway-picker-tls/tls.crt" -}}
{{- $_ := set $router "extproc_key_file" "/etc/spillway-picker-tls/tls.key" -}}
{{- end -}}
{{- $labels := list -}}
{{- range $key, $value := $v.inferencePool.selector -}}
{{- $labels = append $labels (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- $engines = list (mergeOverwrite (deepCopy $v.inferencePool.engine) (dict "selector" (join "," $labels) "ports" $v.inferencePool.targetPorts)) -}}
{{- end -}}
{{- if $engines -}}
{{- $_ := set $router "discovery" (dict "kubernetes" $engines) -}}
{{- end -}}

{{- $own := dict
    "log" (dict "format" "json")
    "store" (dict "spool_dir" "/var/lib/spillway/spool")
    "router" $router
    "predictor" $predictor
    "trainer" (dict "schedule" $v.trainer.schedule "admin" ":8083") -}}
{{- if $access -}}
{{- $_ := set $own "access" $access -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy $v.config)) -}}
{{- end -}}

{{/* Which namespaces the router watches, and what in each: {NAMESPACE: [RESOURCE]}. */}}
{{- define "spillway.watched" -}}
{{- $config := include "spillway.config" . | fromYaml -}}
{{- $own := .Release.Namespace -}}
{{- $watched := dict -}}
{{- range dig "router" "discovery" "kubernetes" (list) $config -}}
{{- $namespace := .namespace | default $own -}}
{{- $resource := ternary "endpointslices" "pods" (hasKey . "service") -}}
{{- $_ := set $watched $namespace (append (get $watched $namespace | default list) $resource | uniq | sortAlpha) -}}
{{- end -}}
{{- toYaml $watched -}}
{{- end -}}
