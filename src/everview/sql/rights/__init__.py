"""Access control in SQL: roles, grants, policies, and sharing of queries among tenants.

Read in this order:

    roles, grants              CREATE ROLE, GRANT and REVOKE
    policies                   CREATE POLICY, and where its condition is bound
    row_checks                 rows that are staged, compared with policies
    identity                   current_user, current_setting
    visible_relations, shares  a table or view as one tenant sees it
    shown_plans                plans as one tenant may see them, for EXPLAIN
    known_queries              queries that are bound once for many users
    shared_queries             queries that many tenants follow: three ways to share them

Decisions are made by `everview.session.rights.access`, and nowhere else.
"""
