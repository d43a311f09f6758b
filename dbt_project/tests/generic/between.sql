{#- Values lie between two bounds, ends included; nulls are somebody else's test. -#}
{% test between(model, column_name, least=none, most=none) %}
    select *
    from {{ model }}
    where false
    {%- if least is not none %} or {{ column_name }} < {{ least }}{% endif %}
    {%- if most is not none %} or {{ column_name }} > {{ most }}{% endif %}
{% endtest %}
