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
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
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

{{- define "authorizerd.metricsScheme" -}}
{{- $metrics := index .Values.settings "authorizerd.metrics.http" | default "" }}
{{- .Values.metricsScheme | default (ternary "HTTPS" "HTTP" (hasPrefix "https:" $metrics)) }}
{{- end }}

{{- /*
server.properties: a line for each key, in order. Backslashes and line ends are escaped as Java reads them, and so are
those line ends that only YAML knows. YAML's numbers are floats here: toString would write 1e+06.
*/ -}}
{{- define "authorizerd.properties" -}}
{{- $settings := deepCopy .Values.settings }}
{{- if and (hasKey $settings "listeners") (not (hasKey $settings "advertised.listeners")) }}
{{- $host := printf "://%s.%s.svc:" (include "authorizerd.fullname" .) .Release.Namespace }}
{{- $_ := set $settings "advertised.listeners" (regexReplaceAll "://(0\\.0\\.0\\.0|\\[::\\])?:" $settings.listeners $host) }}
{{- end }}
{{- range $key, $value := $settings }}
{{- $text := ternary (printf "%.0f" $value) ($value | toString) (kindIs "float64" $value) | replace "\\" "\\\\" }}
{{- range $line, $escaped := dict "\n" "\\n" "\r" "\\r" "\f" "\\f" "\u0085" "\\u0085" "\u2028" "\\u2028" "\u2029" "\\u2029" }}
{{- $text = replace $line $escaped $text }}
{{- end }}
{{ $key }}={{ $text }}
{{- end }}
{{- end }}

{{- /* The addresses of the followed cluster, "?" if settings name none, empty if no cluster is followed. */ -}}
{{- define "authorizerd.followed" -}}
{{- $source := index .Values.settings "authorizerd.source" | default "" }}
{{- $keys := list "controller.quorum.bootstrap.servers" "controller.quorum.voters" }}
{{- if eq $source "brokers" }}
{{- $keys = list "authorizerd.source.bootstrap.servers" }}
{{- end }}
{{- $addresses := list }}
{{- range $keys }}
{{- with index $.Values.settings . }}
{{- $addresses = append $addresses . }}
{{- end }}
{{- end }}
{{- if and (ne $source "log") (or $addresses $source) }}
{{- join "," $addresses | default "?" }}
{{- end }}
{{- end }}

{{- /* The ports of these addresses, with commas. */ -}}
{{- define "authorizerd.followedPorts" -}}
{{- $ports := list }}
{{- range regexFindAll ":[0-9]+ *(,|$)" (include "authorizerd.followed" .) -1 }}
{{- $ports = append $ports (regexFind "[0-9]+" .) }}
{{- end }}
{{- uniq $ports | join "," }}
{{- end }}

{{- define "authorizerd.checks" -}}
{{- $followed := include "authorizerd.followed" . }}
{{- if and (gt (int .Values.replicas) 1) (not $followed) }}
{{- fail "replicas: expected 1, because a log of its own belongs to one pod. Set controller.quorum.bootstrap.servers, or authorizerd.source=brokers, in settings to follow a cluster" }}
{{- end }}
{{- if and $followed .Values.networkPolicy.enabled (not .Values.networkPolicy.egress) (not (include "authorizerd.followedPorts" .)) }}
{{- fail "networkPolicy.egress: expected rules for the followed cluster and for DNS, because settings name none of its ports: the pods could open no connection" }}
{{- end }}
{{- if and .Values.networkPolicy.followed (or .Values.networkPolicy.egress (not $followed)) }}
{{- fail "networkPolicy.followed: expected a followed cluster in settings, and no rules in networkPolicy.egress, which would replace these peers" }}
{{- end }}
{{- range $name := list "podSecurityContext" "securityContext" }}
{{- if hasKey (index $.Values $name) "enabled" }}
{{- fail (printf "%s: Kubernetes has no field enabled. To leave fields out, set each to null" $name) }}
{{- end }}
{{- end }}
{{- range $key, $value := .Values.settings }}
{{- if regexMatch "(sasl\\.jaas\\.config|\\.password|ssl\\.keystore\\.key)$" $key }}
{{- fail (printf "settings: %s is a secret: put it into listener.properties of the Secret" $key) }}
{{- end }}
{{- if and (kindIs "float64" $value) (or (gt $value 9007199254740991.0) (lt $value -9007199254740991.0)) }}
{{- fail (printf "settings: %s is a number that Helm rounds: put it in quotes" $key) }}
{{- end }}
{{- end }}
{{- range $key, $port := dict "listeners" 9092 "authorizerd.decision.http" 8181 "authorizerd.decision.stream" 8183 "authorizerd.metrics.http" 9182 }}
{{- $value := index $.Values.settings $key | default "" }}
{{- $address := regexFind (printf "//[^,]*:%d *(,|$)" $port) $value }}
{{- if and (or $value (eq $port 9182)) (not (hasPrefix "unix:" $value)) (or (not $address) (regexMatch "^//(127\\.|localhost:|\\[::1\\]:)" $address)) }}
{{- fail (printf "settings: %s: expected an address such as 0.0.0.0:%d, because the Service and the probes use this port, found %q" $key $port $value) }}
{{- end }}
{{- end }}
{{- end }}
