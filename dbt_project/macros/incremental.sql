{#-
  Incremental marts follow the change feed of a live table, not its newest time: a promote, a
  rollback or a reconcile changes old rows. Before dbt starts, penstock works out per mart which
  scopes (hours, days) were touched since the version it last read; the variable `positions` has
  them. Touched scopes are computed anew as a whole, and rows that are no more are deleted.
  Why: docs/decisions/0017-marts-follow-the-change-feed.md.
-#}

{#- What this mart has to do: rebuild, or which scopes were touched; and what to note in the commit. -#}
{% macro position() -%}
    {{ return(var('positions', {}).get(model.name, {'rebuild': true, 'touched': [], 'note': ''})) }}
{%- endmacro %}

{#- In place of dbt's own: a mart whose position cannot be trusted is built anew without asking. -#}
{% macro should_full_refresh() -%}
    {%- if model.config.materialized == 'incremental' and position().rebuild -%}
        {{ return(true) }}
    {%- endif -%}
    {{ return(flags.FULL_REFRESH) }}
{%- endmacro %}

{#- A condition that holds for rows of touched scopes; for all rows where everything is computed. -#}
{% macro is_touched(expression) -%}
    {%- if not is_incremental() -%} true
    {%- elif not position().touched -%} false
    {%- else -%} {{ expression }} in ({{ position().touched | join(', ') }})
    {%- endif -%}
{%- endmacro %}

{#- Delta writes this text into every commit until it is taken back: rows and position, one commit. -#}
{% macro note_position() -%}
    {%- if execute and position().note -%}
        set spark.databricks.delta.commitInfo.userMetadata={{ position().note }}
    {%- endif -%}
{%- endmacro %}

{% macro end_note() -%}
    {%- if execute and position().note -%}
        reset spark.databricks.delta.commitInfo.userMetadata
    {%- endif -%}
{%- endmacro %}

{#- In place of dbt-spark's own, which never deletes: within touched scopes the rows given are all
    there are. -#}
{% macro spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
    {%- set scope = config.get('meta', {}).get('scope') -%}
    {%- set touched = position().touched -%}
    {%- if not touched -%}
        select 'nothing was touched' as merged
    {%- else -%}
        {%- set in_scope = 'DBT_INTERNAL_DEST.' ~ scope ~ ' in (' ~ touched | join(', ') ~ ')' -%}
        merge into {{ target }} as DBT_INTERNAL_DEST
        using {{ source }} as DBT_INTERNAL_SOURCE
        on {{ in_scope }}
        {%- for key in unique_key %} and DBT_INTERNAL_SOURCE.{{ key }} <=> DBT_INTERNAL_DEST.{{ key }}
        {%- endfor %}
        when matched then update set *
        when not matched then insert *
        when not matched by source and {{ in_scope }} then delete
    {%- endif -%}
{%- endmacro %}
