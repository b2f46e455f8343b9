{{- define "litek8s.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* What every object's name begins with: the release's name, with the chart's unless it is in it. */}}
{{- define "litek8s.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "litek8s.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "litek8s.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Cluster-scoped names: two releases in two namespaces must not share them. */}}
{{- define "litek8s.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "litek8s.fullname" .) }}
{{- end }}

{{- define "litek8s.selectorLabels" -}}
app.kubernetes.io/name: {{ include "litek8s.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "litek8s.labels" -}}
{{ include "litek8s.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "litek8s.image" -}}
{{- $repository := required "image.repository: no image is published; build one with scripts/image.sh, push it and name it here (docs/install.md)" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The keep annotation of the definitions. */}}
{{- define "litek8s.crdAnnotations" -}}
{{- if .Values.crds.keep -}}
annotations:
  helm.sh/resource-policy: keep
{{- end -}}
{{- end }}
