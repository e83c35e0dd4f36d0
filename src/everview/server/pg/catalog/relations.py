"""The relations of pg_catalog and information_schema, and the types of their columns, as PostgreSQL 15 has them.

Clients select columns by name, so all are here, whether or not anything of ours fills them. The letter after the colon
is the type:

    o oid   n name   t text   b bool   i int4   s int2   l int8   f float4   c "char"   z timestamptz
    T text[]   O oid[]   V int2vector (pg_index.indkey)   S int2[]   N name[]   B bool[]   L int8[]
"""

from __future__ import annotations

from everview.types import BOOL, FLOAT, INT, STR, TIMESTAMPTZ, DataType, array, small_int

LETTERS: dict[str, tuple[int, DataType]] = {
    "o": (26, small_int(-32)),
    "n": (19, STR),
    "t": (25, STR),
    "b": (16, BOOL),
    "i": (23, small_int(32)),
    "s": (21, small_int(16)),
    "l": (20, INT),
    "f": (701, FLOAT),
    "c": (18, STR),
    "z": (1184, TIMESTAMPTZ),
    "T": (1009, array(STR)),
    "O": (1028, array(small_int(-32))),
    "V": (22, STR),
    "S": (1005, array(small_int(16))),
    "N": (1003, array(STR)),
    "B": (1000, array(BOOL)),
    "L": (1016, array(INT)),
}
"""OID and type of each letter."""

_PG = """
pg_namespace oid:o nspname:n nspowner:o nspacl:T
pg_class oid:o relname:n relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o
    relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence:c relkind:c
    relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b
    relispopulated:b relreplident:c relispartition:b relrewrite:o relfrozenxid:o relminmxid:o relacl:T reloptions:T
    relpartbound:t relhasoids:b
pg_attribute attrelid:o attname:n atttypid:o attstattarget:i attlen:s attnum:s attndims:i attcacheoff:i atttypmod:i
    attbyval:b attalign:c attstorage:c attcompression:c attnotnull:b atthasdef:b atthasmissing:b attidentity:c
    attgenerated:c attisdropped:b attislocal:b attinhcount:i attcollation:o attacl:T attoptions:T attfdwoptions:T
    attmissingval:T
pg_type oid:o typname:n typnamespace:o typowner:o typlen:s typbyval:b typtype:c typcategory:c typispreferred:b
    typisdefined:b typdelim:c typrelid:o typsubscript:t typelem:o typarray:o typinput:t typoutput:t typreceive:t
    typsend:t typmodin:t typmodout:t typanalyze:t typalign:c typstorage:c typnotnull:b typbasetype:o typtypmod:i
    typndims:i typcollation:o typdefaultbin:t typdefault:t typacl:T
pg_index indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indnullsnotdistinct:b indisprimary:b
    indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b
    indisreplident:b indkey:V indcollation:V indclass:V indoption:V indexprs:t indpred:t
pg_constraint oid:o conname:n connamespace:o contype:c condeferrable:b condeferred:b convalidated:b conrelid:o
    contypid:o conindid:o conparentid:o confrelid:o confupdtype:c confdeltype:c confmatchtype:c conislocal:b
    coninhcount:i connoinherit:b conkey:S confkey:S conpfeqop:O conppeqop:O conffeqop:O confdelsetcols:S conexclop:O
    conbin:t consrc:t
pg_attrdef oid:o adrelid:o adnum:s adbin:t adsrc:t
pg_description objoid:o classoid:o objsubid:i description:t
pg_shdescription objoid:o classoid:o description:t
pg_database oid:o datname:n datdba:o encoding:i datlocprovider:c datistemplate:b datallowconn:b datconnlimit:i
    datfrozenxid:o datminmxid:o dattablespace:o datcollate:t datctype:t daticulocale:t datcollversion:t datacl:T
pg_roles rolname:n rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i
    rolpassword:t rolvaliduntil:z rolbypassrls:b rolconfig:T oid:o
pg_authid oid:o rolname:n rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b
    rolbypassrls:b rolconnlimit:i rolvaliduntil:z
pg_user usename:n usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:z useconfig:T
pg_group groname:n grosysid:o grolist:O
pg_auth_members roleid:o member:o grantor:o admin_option:b
pg_am oid:o amname:n amhandler:t amtype:c
pg_collation oid:o collname:n collnamespace:o collowner:o collprovider:c collisdeterministic:b collencoding:i
    collcollate:t collctype:t colliculocale:t collversion:t
pg_inherits inhrelid:o inhparent:o inhseqno:i inhdetachpending:b
pg_policy oid:o polname:n polrelid:o polcmd:c polpermissive:b polroles:O polqual:t polwithcheck:t
pg_policies schemaname:n tablename:n policyname:n permissive:t roles:N cmd:t qual:t with_check:t
pg_publication oid:o pubname:n pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b
    pubviaroot:b
pg_publication_rel oid:o prpubid:o prrelid:o prqual:t prattrs:V
pg_publication_namespace oid:o pnpubid:o pnnspid:o
pg_publication_tables pubname:n schemaname:n tablename:n
pg_subscription oid:o subdbid:o subname:n subowner:o subenabled:b subbinary:b substream:c subtwophasestate:c
    subdisableonerr:b subconninfo:t subslotname:n subsynccommit:t subpublications:T subskiplsn:t
pg_statistic_ext oid:o stxrelid:o stxname:n stxnamespace:o stxowner:o stxstattarget:i stxkeys:V stxkind:T stxexprs:t
pg_range rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical:t rngsubdiff:t
pg_enum oid:o enumtypid:o enumsortorder:f enumlabel:n
pg_proc oid:o proname:n pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport:t prokind:c
    prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile:c proparallel:c pronargs:s pronargdefaults:s
    prorettype:o proargtypes:V proallargtypes:O proargmodes:T proargnames:T proargdefaults:t protrftypes:O prosrc:t
    probin:t prosqlbody:t proconfig:T proacl:T
pg_aggregate aggfnoid:o aggkind:c aggnumdirectargs:s aggtransfn:t
pg_trigger oid:o tgrelid:o tgparentid:o tgname:n tgfoid:o tgtype:s tgenabled:c tgisinternal:b tgconstrrelid:o
    tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:s tgattr:V tgargs:t tgqual:t tgoldtable:n
    tgnewtable:n
pg_event_trigger oid:o evtname:n evtevent:n evtowner:o evtfoid:o evtenabled:c evttags:T
pg_rewrite oid:o rulename:n ev_class:o ev_type:c ev_enabled:c is_instead:b ev_qual:t ev_action:t
pg_rules schemaname:n tablename:n rulename:n definition:t
pg_foreign_table ftrelid:o ftserver:o ftoptions:T
pg_foreign_server oid:o srvname:n srvowner:o srvfdw:o srvtype:t srvversion:t srvacl:T srvoptions:T
pg_foreign_data_wrapper oid:o fdwname:n fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:T fdwoptions:T
pg_user_mapping oid:o umuser:o umserver:o umoptions:T
pg_user_mappings umid:o srvid:o srvname:n umuser:o usename:n umoptions:T
pg_tablespace oid:o spcname:n spcowner:o spcacl:T spcoptions:T
pg_sequence seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b
pg_sequences schemaname:n sequencename:n sequenceowner:n data_type:t start_value:l min_value:l max_value:l
    increment_by:l cycle:b cache_size:l last_value:l
pg_depend classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:c
pg_shdepend dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:c
pg_settings name:t setting:t unit:t category:t short_desc:t extra_desc:t context:t vartype:t source:t min_val:t
    max_val:t enumvals:T boot_val:t reset_val:t sourcefile:t sourceline:i pending_restart:b
pg_extension oid:o extname:n extowner:o extnamespace:o extrelocatable:b extversion:t extconfig:O extcondition:T
pg_available_extensions name:n default_version:t installed_version:t comment:t
pg_matviews schemaname:n matviewname:n matviewowner:n tablespace:n hasindexes:b ispopulated:b definition:t
pg_views schemaname:n viewname:n viewowner:n definition:t
pg_tables schemaname:n tablename:n tableowner:n tablespace:n hasindexes:b hasrules:b hastriggers:b rowsecurity:b
pg_indexes schemaname:n tablename:n indexname:n tablespace:n indexdef:t
pg_stat_activity datid:o datname:n pid:i leader_pid:i usesysid:o usename:n application_name:t client_addr:t
    client_hostname:t client_port:i backend_start:z xact_start:z query_start:z state_change:z wait_event_type:t
    wait_event:t state:t backend_xid:o backend_xmin:o query_id:l query:t backend_type:t
pg_stat_ssl pid:i ssl:b version:t cipher:t bits:i client_dn:t client_serial:t issuer_dn:t
pg_stat_database datid:o datname:n numbackends:i xact_commit:l xact_rollback:l blks_read:l blks_hit:l tup_returned:l
    tup_fetched:l tup_inserted:l tup_updated:l tup_deleted:l stats_reset:z
pg_stat_user_tables relid:o schemaname:n relname:n seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l n_tup_ins:l
    n_tup_upd:l n_tup_del:l n_live_tup:l n_dead_tup:l last_vacuum:z last_autovacuum:z last_analyze:z
    last_autoanalyze:z
pg_stat_all_tables relid:o schemaname:n relname:n seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l n_live_tup:l
    n_dead_tup:l
pg_statio_user_tables relid:o schemaname:n relname:n heap_blks_read:l heap_blks_hit:l
pg_stats schemaname:n tablename:n attname:n inherited:b null_frac:f avg_width:i n_distinct:f
pg_locks locktype:t database:o relation:o page:i tuple:s virtualxid:t transactionid:o classid:o objid:o objsubid:s
    virtualtransaction:t pid:i mode:t granted:b
pg_language oid:o lanname:n lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o lanvalidator:o lanacl:T
pg_operator oid:o oprname:n oprnamespace:o oprowner:o oprkind:c oprcanmerge:b oprcanhash:b oprleft:o oprright:o
    oprresult:o oprcom:o oprnegate:o oprcode:t oprrest:t oprjoin:t
pg_opclass oid:o opcmethod:o opcname:n opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b opckeytype:o
pg_opfamily oid:o opfmethod:o opfname:n opfnamespace:o opfowner:o
pg_amop oid:o amopfamily:o amoplefttype:o amoprighttype:o amopstrategy:s amoppurpose:c amopopr:o amopmethod:o
    amopsortfamily:o
pg_amproc oid:o amprocfamily:o amproclefttype:o amprocrighttype:o amprocnum:s amproc:t
pg_cast oid:o castsource:o casttarget:o castfunc:o castcontext:c castmethod:c
pg_conversion oid:o conname:n connamespace:o conowner:o conforencoding:i contoencoding:i conproc:t condefault:b
pg_ts_config oid:o cfgname:n cfgnamespace:o cfgowner:o cfgparser:o
pg_ts_dict oid:o dictname:n dictnamespace:o dictowner:o dicttemplate:o dictinitoption:t
pg_ts_parser oid:o prsname:n prsnamespace:o
pg_ts_template oid:o tmplname:n tmplnamespace:o
pg_transform oid:o trftype:o trflang:o
pg_partitioned_table partrelid:o partstrat:c partnatts:s partdefid:o partattrs:V partclass:V partcollation:V
    partexprs:t
pg_default_acl oid:o defaclrole:o defaclnamespace:o defaclobjtype:c defaclacl:T
pg_db_role_setting setdatabase:o setrole:o setconfig:T
pg_largeobject_metadata oid:o lomowner:o lomacl:T
pg_seclabel objoid:o classoid:o objsubid:i provider:t label:t
pg_get_keywords word:t catcode:c barelabel:b catdesc:t baredesc:t
pg_timezone_names name:t abbrev:t utc_offset:t is_dst:b
pg_timezone_abbrevs abbrev:t utc_offset:t is_dst:b
pg_prepared_statements name:t statement:t prepare_time:z parameter_types:T from_sql:b
pg_prepared_xacts transaction:o gid:t prepared:z owner:n database:n
pg_cursors name:t statement:t is_holdable:b is_binary:b is_scrollable:b creation_time:z
pg_replication_slots slot_name:n plugin:n slot_type:t datoid:o database:n active:b
"""

_INFORMATION = """
schemata catalog_name:n schema_name:n schema_owner:n default_character_set_catalog:n default_character_set_schema:n
    default_character_set_name:n sql_path:t
tables table_catalog:n table_schema:n table_name:n table_type:t self_referencing_column_name:n reference_generation:t
    user_defined_type_catalog:n user_defined_type_schema:n user_defined_type_name:n is_insertable_into:t is_typed:t
    commit_action:t
columns table_catalog:n table_schema:n table_name:n column_name:n ordinal_position:i column_default:t is_nullable:t
    data_type:t character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i
    numeric_scale:i datetime_precision:i interval_type:t interval_precision:i character_set_catalog:n
    character_set_schema:n character_set_name:n collation_catalog:n collation_schema:n collation_name:n
    domain_catalog:n domain_schema:n domain_name:n udt_catalog:n udt_schema:n udt_name:n scope_catalog:n
    scope_schema:n scope_name:n maximum_cardinality:i dtd_identifier:n is_self_referencing:t is_identity:t
    identity_generation:t identity_start:t identity_increment:t identity_maximum:t identity_minimum:t identity_cycle:t
    is_generated:t generation_expression:t is_updatable:t
views table_catalog:n table_schema:n table_name:n view_definition:t check_option:t is_updatable:t is_insertable_into:t
    is_trigger_updatable:t is_trigger_deletable:t is_trigger_insertable_into:t
table_constraints constraint_catalog:n constraint_schema:n constraint_name:n table_catalog:n table_schema:n
    table_name:n constraint_type:t is_deferrable:t initially_deferred:t enforced:t nulls_distinct:t
key_column_usage constraint_catalog:n constraint_schema:n constraint_name:n table_catalog:n table_schema:n
    table_name:n column_name:n ordinal_position:i position_in_unique_constraint:i
constraint_column_usage table_catalog:n table_schema:n table_name:n column_name:n constraint_catalog:n
    constraint_schema:n constraint_name:n
constraint_table_usage table_catalog:n table_schema:n table_name:n constraint_catalog:n constraint_schema:n
    constraint_name:n
referential_constraints constraint_catalog:n constraint_schema:n constraint_name:n unique_constraint_catalog:n
    unique_constraint_schema:n unique_constraint_name:n match_option:t update_rule:t delete_rule:t
check_constraints constraint_catalog:n constraint_schema:n constraint_name:n check_clause:t
routines specific_catalog:n specific_schema:n specific_name:n routine_catalog:n routine_schema:n routine_name:n
    routine_type:t data_type:t type_udt_name:n routine_body:t routine_definition:t external_language:t
    is_deterministic:t security_type:t
parameters specific_catalog:n specific_schema:n specific_name:n ordinal_position:i parameter_mode:t parameter_name:n
    data_type:t udt_name:n parameter_default:t
sequences sequence_catalog:n sequence_schema:n sequence_name:n data_type:t numeric_precision:i start_value:t
    minimum_value:t maximum_value:t increment:t cycle_option:t
domains domain_catalog:n domain_schema:n domain_name:n data_type:t domain_default:t udt_name:n
triggers trigger_catalog:n trigger_schema:n trigger_name:n event_manipulation:t event_object_catalog:n
    event_object_schema:n event_object_table:n action_order:i action_condition:t action_statement:t
    action_orientation:t action_timing:t
element_types object_catalog:n object_schema:n object_name:n object_type:t collection_type_identifier:n data_type:t
    udt_name:n
character_sets character_set_catalog:n character_set_schema:n character_set_name:n character_repertoire:n
    form_of_use:n default_collate_name:n
table_privileges grantor:n grantee:n table_catalog:n table_schema:n table_name:n privilege_type:t is_grantable:t
    with_hierarchy:t
column_privileges grantor:n grantee:n table_catalog:n table_schema:n table_name:n column_name:n privilege_type:t
    is_grantable:t
role_table_grants grantor:n grantee:n table_catalog:n table_schema:n table_name:n privilege_type:t is_grantable:t
    with_hierarchy:t
enabled_roles role_name:n
applicable_roles grantee:n role_name:n is_grantable:t
view_table_usage view_catalog:n view_schema:n view_name:n table_catalog:n table_schema:n table_name:n
information_schema_catalog_name catalog_name:n
"""

Columns = dict[str, str]
"""Letters by names of columns."""


def _read(text: str) -> dict[str, Columns]:
    found: dict[str, Columns] = {}
    for line in text.strip().replace("\n    ", " ").splitlines():
        name, *columns = line.split()
        found[name] = dict(c.split(":") for c in columns)
    return found


RELATIONS: dict[str, dict[str, Columns]] = {"pg_catalog": _read(_PG), "information_schema": _read(_INFORMATION)}
"""Columns by schema and relation."""

_EVERY: dict[str, str] = {}
for _schema in RELATIONS.values():
    for _columns in _schema.values():
        for _name, _letter in _columns.items():
            _EVERY.setdefault(_name, _letter)

LETTER_OF: dict[str, str] = _EVERY
"""The letter of a column by its name alone: names of the catalogue's columns hardly ever mean two things."""
