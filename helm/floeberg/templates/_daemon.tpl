{{/* What a pod gets: the daemon, the step that puts the plugin's jar in place, and the volumes of both.
     Takes a dict: root, bootstrap, logDirs (a TOML array), logVolume, mountPath, userId. */}}

{{- define "floeberg.security" -}}
runAsUser: {{ .userId }}
runAsNonRoot: true
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "floeberg.pluginStep" -}}
name: floeberg-plugin
image: {{ include "floeberg.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [install, -m, "0644", /opt/floeberg/plugin/floeberg-plugin.jar, /plugin/]
resources:
  requests: {cpu: 10m, memory: 16Mi}
  limits: {memory: 64Mi}
securityContext:
  {{- include "floeberg.security" . | nindent 2 }}
volumeMounts:
  - {name: floeberg-plugin, mountPath: /plugin}
{{- end }}

{{- define "floeberg.container" -}}
{{- $values := .root.Values -}}
name: floeberg
image: {{ include "floeberg.image" .root }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args: [run, --log-format, json, --log-level, {{ $values.daemon.logLevel }}]
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- with .nodeId }}
  - name: NODE_ID
    valueFrom: {fieldRef: {fieldPath: {{ . | quote }}}}
  {{- end }}
  - name: FLOEBERG_CONFIG
    value: /etc/floeberg/floeberg.toml
  - name: FLOEBERG_BROKER__BOOTSTRAP
    value: {{ .bootstrap | quote }}
  - name: FLOEBERG_BROKER__LOG_DIRS
    value: {{ .logDirs | quote }}
  {{- range $variable, $secret := $values.secrets.env }}
  - name: {{ $variable }}
    valueFrom: {secretKeyRef: {name: {{ $secret.name }}, key: {{ $secret.key }}}}
  {{- end }}
  {{- with $values.daemon.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: tables, containerPort: {{ $values.tableDoor.port }}}
# No readiness probe: a broker serves its clients also while its daemon is away.
startupProbe:
  httpGet: {path: /healthz, port: tables}
  periodSeconds: 5
  # Kernels that the image did not bring for this processor take minutes.
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /healthz, port: tables}
  periodSeconds: 30
  timeoutSeconds: 5
  failureThreshold: 4
resources:
  {{- toYaml $values.daemon.resources | nindent 2 }}
securityContext:
  {{- include "floeberg.security" . | nindent 2 }}
volumeMounts:
  - {name: {{ .logVolume }}, mountPath: {{ .mountPath }}}
  - {name: floeberg-data, mountPath: /var/lib/floeberg}
  - {name: floeberg-settings, mountPath: /etc/floeberg, readOnly: true}
  - {{ include "floeberg.tokensMount" . }}
  - {name: floeberg-scratch, mountPath: /tmp, subPath: tmp}
  - {name: floeberg-scratch, mountPath: /var/cache/floeberg, subPath: cache}
{{- end }}

{{/* Whole, not by subPath, which Kubernetes would never bring up to date. Broker and daemon share it, so that both have
     another token at the same time. */}}
{{- define "floeberg.tokensMount" -}}
{name: floeberg-tokens, mountPath: /run/secrets/floeberg, readOnly: true}
{{- end }}

{{/* As a list; the volume floeberg-data is a claim, which each mode makes in its own way. */}}
{{- define "floeberg.volumes" -}}
- name: floeberg-settings
  configMap: {name: {{ include "floeberg.name" .root }}}
- name: floeberg-tokens
  secret: {secretName: {{ include "floeberg.secret" .root }}}
- name: floeberg-scratch
  emptyDir: {}
{{- if include "floeberg.isNative" .root }}
- name: floeberg-plugin
  emptyDir: {}
{{- end }}
{{- end }}

{{/* A claim for each pod, made with it and gone with it: what has to stay is in the shared catalog and warehouse. */}}
{{- define "floeberg.podClaim" -}}
name: floeberg-data
ephemeral:
  volumeClaimTemplate:
    spec:
      {{- include "floeberg.claim" .root.Values.dataVolume | nindent 6 }}
{{- end }}

{{- define "floeberg.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .size }}}}
{{- end }}
