{{- define "floeberg.name" -}}
{{- $name := ternary .Release.Name (printf "%s-floeberg" .Release.Name) (contains "floeberg" .Release.Name) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "floeberg.labels" -}}
app.kubernetes.io/name: floeberg
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The labels of the pods that have a daemon. */}}
{{- define "floeberg.podLabels" -}}
{{- if eq .Values.mode "overlay" -}}
{{ toYaml .Values.overlay.podLabels }}
{{- else if eq .Values.mode "strimzi" -}}
strimzi.io/cluster: {{ .Values.strimzi.cluster }}
strimzi.io/broker-role: "true"
{{- else -}}
app.kubernetes.io/name: floeberg
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: broker
{{- end }}
{{- end }}

{{- define "floeberg.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "floeberg.secret" -}}
{{ .Values.secrets.existing | default (printf "%s-tokens" (include "floeberg.name" .)) }}
{{- end }}

{{- define "floeberg.isNative" -}}
{{- $part := dict "brokers" .Values.kafka "strimzi" .Values.strimzi "overlay" .Values.overlay -}}
{{- if (get $part .Values.mode).nativeMode }}yes{{ end -}}
{{- end }}

{{/* A value as a CEL literal. The API server takes no list or map of mixed types, but one of dyn. */}}
{{- define "floeberg.cel" -}}
{{- if kindIs "map" . -}}
{{- $members := list -}}
{{- range $key, $value := . }}{{ $members = append $members (printf "%s: %s" ($key | toJson) (include "floeberg.cel" $value)) }}{{ end -}}
dyn({ {{- join ", " $members -}} })
{{- else if kindIs "slice" . -}}
{{- $members := list -}}
{{- range . }}{{ $members = append $members (include "floeberg.cel" .) }}{{ end -}}
dyn([{{ join ", " $members }}])
{{- else -}}
dyn({{ toJson . }})
{{- end -}}
{{- end }}
