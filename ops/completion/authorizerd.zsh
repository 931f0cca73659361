#compdef authorizerd
# Written by python -m tests.ops.manual: change the parsers instead. It belongs into
# /usr/share/zsh/site-functions/_authorizerd

_authorizerd() {
    local context state line
    local -a commands=(
        'serve:run the daemon'
        'format:create an empty log directory'
        'token:create a token for a caller of a decision port'
        'acls:list, add and remove ACLs, with the flags of kafka-acls'
        'check-log:validate every byte of a metadata log'
        'doctor:find problems for a daemon on this machine'
        'replay:Recorded traffic, on Spark, against other ACLs.'
        'explain:show a decision and its reason, from a log or checkpoint'
    )
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--version[show program'"'"'s version number and exit]' \
        '1: :{_describe command commands}' \
        '*:: :->below'
    [[ $state == below ]] && case $words[1] in
        serve) _authorizerd_serve ;;
        format) _authorizerd_format ;;
        token) _authorizerd_token ;;
        acls) _authorizerd_acls ;;
        check-log) _authorizerd_check_log ;;
        doctor) _authorizerd_doctor ;;
        replay) _authorizerd_replay ;;
        explain) _authorizerd_explain ;;
    esac
}

_authorizerd_serve() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--config[server.properties]:CONFIG:_files' \
        '*--override[a setting that overrides the file'"'"'s; may be repeated]:KEY=VALUE:_files' \
        '*--ready-file[write the bound addresses here, as JSON, once ready]:READY_FILE:_files'
}

_authorizerd_format() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--config[server.properties]:CONFIG:_files' \
        '*--override[a setting that overrides the file'"'"'s; may be repeated]:KEY=VALUE:_files' \
        '*--cluster-id[the cluster'"'"'s id (default\: a random one)]:CLUSTER_ID:_files' \
        '*--add-scram[a user'"'"'s SCRAM credential, in kafka-storage'"'"'s syntax; may be repeated]:'"'"'MECHANISM=[name=USER,password=PASSWORD]'"'"':_files'
}

_authorizerd_token() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--principal[the token'"'"'s holder\: Type\:name, for example User\:proxy]:PRINCIPAL:_files' \
        '*--id[the token'"'"'s id (default\: a random one)]:ID:_files' \
        '*--append[add the token'"'"'s line to authorizerd.tokens.file; without it the line is printed]:FILE:_files'
}

_authorizerd_acls() {
    _arguments -C \
        '*--add[Add ACLs.]' \
        '*--remove[Remove ACLs.]' \
        '*--list[List the ACLs of the named resources, or all.]' \
        '*--bootstrap-server[Brokers to connect to\: host\:port,host\:port.]:VALUE:_files' \
        '*--bootstrap-controller[Controllers to connect to instead.]:VALUE:_files' \
        '*--command-config[A properties file for the connection\: security.protocol, sasl.mechanism, sasl.jaas.config, request.timeout.ms, default.api.timeout.ms.]:VALUE:_files' \
        '*--log-dir[With --list\: read, instead of asking a server, a directory that holds __cluster_metadata-0, or one .checkpoint file.]:VALUE:_files' \
        '*--topic[A topic; '"'"'*'"'"' is the ACLs for all topics.]:VALUE:_files' \
        '*--group[A consumer group; '"'"'*'"'"' is the ACLs for all groups.]:VALUE:_files' \
        '*--cluster[The cluster.]' \
        '*--transactional-id[A transactional id; '"'"'*'"'"' is the ACLs for all.]:VALUE:_files' \
        '*--delegation-token[A delegation token; '"'"'*'"'"' is the ACLs for all.]:VALUE:_files' \
        '*--user-principal[A user as the resource of CreateTokens and DescribeTokens.]:VALUE:_files' \
        '*--resource-pattern-type[How names are meant\: LITERAL (the default) or PREFIXED; to list and remove also ANY (this name in either type) and MATCH (every pattern that such a resource meets; with --remove, take care).]:VALUE:_files' \
        '*--operation[All (the default), Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, CreateTokens, DescribeTokens or TwoPhaseCommit.]:VALUE:_files' \
        '*--allow-principal[A principal to allow, as Type\:name; User\:'"'"'*'"'"' is everyone.]:VALUE:_files' \
        '*--deny-principal[A principal to deny; a denial overrides any permission.]:VALUE:_files' \
        '*--allow-host[A host of the allowed principals (default\: any host).]:VALUE:_files' \
        '*--deny-host[A host of the denied principals (default\: any host).]:VALUE:_files' \
        '*--principal[With --list\: only the ACLs of this principal.]:VALUE:_files' \
        '*--producer[The ACLs of a producer\: Write, Describe and Create on the topics, Write and Describe on the transactional ids.]' \
        '*--consumer[The ACLs of a consumer\: Read and Describe on the topics, Read on the groups.]' \
        '*--idempotent[With --producer\: IdempotentWrite on the cluster too.]' \
        '*--force[Do not ask for confirmation.]' \
        '*--help[Print this help.]' \
        '*--version[Print the version of authorizerd.]'
}

_authorizerd_check_log() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        :DIRECTORY:_files \
        '*--repair[keep a copy, then end the log before what cannot be read; says first what is lost]'
}

_authorizerd_doctor() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--config[server.properties]:CONFIG:_files' \
        '*--override[a setting that overrides the file'"'"'s; may be repeated]:KEY=VALUE:_files' \
        '*--json[print one JSON document]'
}

_authorizerd_replay() {
    local context state line
    local -a commands=(
        'ingest:read audit logs into events'
        'whatif:say what other ACLs would newly deny, and newly allow'
        'usage:say which ACLs the traffic used, and what narrower ones would serve it'
        'load:send the recorded questions to a live daemon, and measure its answers'
        'report:make one page of what the others found; needs no Spark'
    )
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '1: :{_describe command commands}' \
        '*:: :->below'
    [[ $state == below ]] && case $words[1] in
        ingest) _authorizerd_replay_ingest ;;
        whatif) _authorizerd_replay_whatif ;;
        usage) _authorizerd_replay_usage ;;
        load) _authorizerd_replay_load ;;
        report) _authorizerd_replay_report ;;
    esac
}

_authorizerd_replay_ingest() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--input[audit logs\: files, directories, globs or URIs]:PATH:_files' \
        '*--format[format of the input; default auto]:auto|json|kafka:(auto json kafka)' \
        '*--tz[zone of times without one; default UTC]:ZONE:_files' \
        '*--max-bad-ratio[maximum share of lines set aside; default 0.01]:R:_files' \
        '*--out[gets the results]:DIR:_files' \
        '*--overwrite[--out may hold something\: replace the results]' \
        '*--master[default local\[*\]]:MASTER:_files' \
        '*--deploy-mode[]:client|cluster:(client cluster)' \
        '*--conf[a Spark setting; may be repeated]:KEY=VALUE:_files' \
        '*--archives[archives to unpack beside each executor]:FILE#NAME,…:_files' \
        '*--spark-home[a Spark 4; default SPARK_HOME, or the installed pyspark]:DIR:_files' \
        '*--python[the Python of the executors]:PATH:_files' \
        '*--driver-memory[default 2g if local]:SIZE:_files' \
        '*--executor-memory[]:SIZE:_files' \
        '*--executor-cores[]:N:_files' \
        '*--num-executors[]:N:_files' \
        '*--print[print the spark-submit line, keep its files, run nothing]' \
        '*--verbose[show all output of Spark]'
}

_authorizerd_replay_whatif() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--events[output of ingest]:DIR:_files' \
        '*--acls[a log directory, a .checkpoint file, kafka-acls --list output, a YAML or JSON file, or kafka\://HOST\:PORT]:SOURCE:_files' \
        '*--as-of[use the ACLs of a log directory at that time]:TIME|OFFSET:_files' \
        '*--super-users[same as super.users\: Type\:name;Type\:name]:A;B:_files' \
        '*--allow-everyone-if-no-acl-found[]' \
        '*--command-config[client settings for kafka\:// sources]:FILE:_files' \
        '*--baseline-acls[compare with these ACLs instead of the recorded decisions]:SOURCE:_files' \
        '*--baseline-as-of[--as-of for the baseline]:TIME|OFFSET:_files' \
        '*--out[gets the results]:DIR:_files' \
        '*--overwrite[--out may hold something\: replace the results]' \
        '*--master[default local\[*\]]:MASTER:_files' \
        '*--deploy-mode[]:client|cluster:(client cluster)' \
        '*--conf[a Spark setting; may be repeated]:KEY=VALUE:_files' \
        '*--archives[archives to unpack beside each executor]:FILE#NAME,…:_files' \
        '*--spark-home[a Spark 4; default SPARK_HOME, or the installed pyspark]:DIR:_files' \
        '*--python[the Python of the executors]:PATH:_files' \
        '*--driver-memory[default 2g if local]:SIZE:_files' \
        '*--executor-memory[]:SIZE:_files' \
        '*--executor-cores[]:N:_files' \
        '*--num-executors[]:N:_files' \
        '*--print[print the spark-submit line, keep its files, run nothing]' \
        '*--verbose[show all output of Spark]'
}

_authorizerd_replay_usage() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--events[output of ingest]:DIR:_files' \
        '*--acls[a log directory, a .checkpoint file, kafka-acls --list output, a YAML or JSON file, or kafka\://HOST\:PORT]:SOURCE:_files' \
        '*--as-of[use the ACLs of a log directory at that time]:TIME|OFFSET:_files' \
        '*--super-users[same as super.users\: Type\:name;Type\:name]:A;B:_files' \
        '*--allow-everyone-if-no-acl-found[]' \
        '*--command-config[client settings for kafka\:// sources]:FILE:_files' \
        '*--lookback[evaluate only the last days of the events; default all]:DAYS:_files' \
        '*--names-max[suggest at most N literal ACLs for a wide grant; default 20]:N:_files' \
        '*--assume-in-force[treat ACLs of unknown age as older than the window]' \
        '*--out[gets the results]:DIR:_files' \
        '*--overwrite[--out may hold something\: replace the results]' \
        '*--master[default local\[*\]]:MASTER:_files' \
        '*--deploy-mode[]:client|cluster:(client cluster)' \
        '*--conf[a Spark setting; may be repeated]:KEY=VALUE:_files' \
        '*--archives[archives to unpack beside each executor]:FILE#NAME,…:_files' \
        '*--spark-home[a Spark 4; default SPARK_HOME, or the installed pyspark]:DIR:_files' \
        '*--python[the Python of the executors]:PATH:_files' \
        '*--driver-memory[default 2g if local]:SIZE:_files' \
        '*--executor-memory[]:SIZE:_files' \
        '*--executor-cores[]:N:_files' \
        '*--num-executors[]:N:_files' \
        '*--print[print the spark-submit line, keep its files, run nothing]' \
        '*--verbose[show all output of Spark]'
}

_authorizerd_replay_load() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--events[output of ingest]:DIR:_files' \
        '*--target[address of the daemon, or unix\:PATH]:HOST PORT:_files' \
        '*--surface[stream]:stream|http:(stream http)' \
        '*--token-file[file whose first line is the token]:FILE:_files' \
        '*--mode[open\: follow a schedule; closed\: as fast as answers arrive]:open|closed:(open closed)' \
        '*--speed[speed relative to the recorded times]:FACTOR:_files' \
        '*--rate[questions per second instead]:N:_files' \
        '*--profile[or ramp\:FROM\:TO\:SECONDS, or step\:RATE\:SECONDS,RATE\:SECONDS]:PROFILE:_files' \
        '*--max-gap[shorten longer gaps to this]:SECONDS:_files' \
        '*--loop[repetitions of the record; 0\: until --duration; default 1]:N:_files' \
        '*--warmup[excluded from all figures]:SECONDS:_files' \
        '*--duration[after the warm-up]:SECONDS:_files' \
        '*--lanes[connections, one task each; default 1]:N:_files' \
        '*--batch[questions per frame; default 64]:N:_files' \
        '*--depth[frames in flight; default 8]:N:_files' \
        '*--start-margin[delay between all lanes being ready and their start; default 3.0]:SECONDS:_files' \
        '*--max-send-lag[maximum send lag at p99 of a valid run; default 10.0]:MS:_files' \
        '*--fail-on[such as p99<5ms,mismatch=0,errors=0,dropped=0,rate>=1000; else exit code 3]:THRESHOLDS:_files' \
        '*--dry-run[only plan; send nothing]' \
        '*--out[gets the results]:DIR:_files' \
        '*--overwrite[--out may hold something\: replace the results]' \
        '*--master[default local\[*\]]:MASTER:_files' \
        '*--deploy-mode[]:client|cluster:(client cluster)' \
        '*--conf[a Spark setting; may be repeated]:KEY=VALUE:_files' \
        '*--archives[archives to unpack beside each executor]:FILE#NAME,…:_files' \
        '*--spark-home[a Spark 4; default SPARK_HOME, or the installed pyspark]:DIR:_files' \
        '*--python[the Python of the executors]:PATH:_files' \
        '*--driver-memory[default 2g if local]:SIZE:_files' \
        '*--executor-memory[]:SIZE:_files' \
        '*--executor-cores[]:N:_files' \
        '*--num-executors[]:N:_files' \
        '*--print[print the spark-submit line, keep its files, run nothing]' \
        '*--verbose[show all output of Spark]'
}

_authorizerd_replay_report() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--run[holds ingest.json, whatif.json, usage.json or load.json, or directories that do]:DIR:_files' \
        '*--out[the page; DIR/report.html without it. The same as JSON is written beside it]:FILE:_files'
}

_authorizerd_explain() {
    _arguments -C \
        '*-h[show this help message and exit]' \
        '*--help[show this help message and exit]' \
        '*--log-dir[a directory that holds __cluster_metadata-0, or one .checkpoint file; without it that of --config]:LOG_DIR:_files' \
        '*--config[server.properties]:CONFIG:_files' \
        '*--override[a setting that overrides the file'"'"'s; may be repeated]:KEY=VALUE:_files' \
        '*--principal[Type\:name, for example User\:alice]:PRINCIPAL:_files' \
        '*--host[the client'"'"'s IP address (default\: unknown)]:HOST:_files' \
        '*--operation[a Kafka operation, in any case]:OPERATION:_files' \
        '*--topic[]:NAME:_files' \
        '*--group[]:NAME:_files' \
        '*--transactional-id[]:NAME:_files' \
        '*--delegation-token[]:NAME:_files' \
        '*--user-principal[]:NAME:_files' \
        '*--cluster[the resource kafka-cluster]' \
        '*--super-users[overrides super.users of --config\: Type\:name;Type\:name]:LIST:_files' \
        '*--allow-everyone-if-no-acl-found[as if allow.everyone.if.no.acl.found were true]'
}

_authorizerd "$@"
