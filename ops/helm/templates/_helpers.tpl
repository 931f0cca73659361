{{- define "authorizerd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "authorizerd.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "authorizerd.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "authorizerd.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "authorizerd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "authorizerd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "authorizerd.labels" -}}
{{ include "authorizerd.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- if ne .Chart.Version "0.0.0" }}{{/* in a clone, the chart has no version */}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
{{- end }}

{{- define "authorizerd.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "authorizerd.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "authorizerd.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* server.properties: a line for each key, in order. Backslashes and line ends are escaped as Java reads them. */ -}}
{{- define "authorizerd.properties" -}}
{{- $settings := deepCopy .Values.settings }}
{{- if and (hasKey $settings "listeners") (not (hasKey $settings "advertised.listeners")) }}
{{- $host := printf "://%s.%s.svc:" (include "authorizerd.fullname" .) .Release.Namespace }}
{{- $_ := set $settings "advertised.listeners" (replace "://0.0.0.0:" $host $settings.listeners) }}
{{- end }}
{{- range $key, $value := $settings }}
{{ $key }}={{ $value | toString | replace "\\" "\\\\" | replace "\n" "\\n" }}
{{- end }}
{{- end }}

{{- define "authorizerd.checks" -}}
{{- $follows := or (index .Values.settings "controller.quorum.bootstrap.servers") (index .Values.settings "controller.quorum.voters") (index .Values.settings "authorizerd.source.bootstrap.servers") }}
{{- if and (gt (int .Values.replicas) 1) (not $follows) }}
{{- fail "replicas: expected 1, because a log of its own belongs to one pod. Set controller.quorum.bootstrap.servers or authorizerd.source.bootstrap.servers in settings to follow a cluster" }}
{{- end }}
{{- range $key, $_ := .Values.settings }}
{{- if regexMatch "(sasl\\.jaas\\.config|\\.password|ssl\\.keystore\\.key)$" $key }}
{{- fail (printf "settings: %s is a secret: put it into listener.properties of the Secret" $key) }}
{{- end }}
{{- end }}
{{- end }}
