"""Oracles: slow, plain ports of the papers' definitions, on one query at a time, that the fast code is tested against.

Nothing here shares a line with `ol2r_cli`; what it shares is the papers. Plain loops are wanted, speed is not.
The tests beside the oracles compare them with what papers print, with libraries, or with a calculation by hand.

    blocks     certain rank order -> ordered blocks            PairRank, Definition 4
    shuffles   blocks -> exact distribution of served orders   PairRank, Section 3.2.3
    objective  history of pairs -> optimal parameters          PairRank, Eq. (1), P2NeurRank, Eq. (4.2)
    forgetting the rounds, one after the other; weights by age PairRank, Algorithm 1; D-LinUCB, Algorithm 1
    clicks     grades -> exact click probabilities             PairRank, Section 4.1
    feedback   clicks -> pairs                                 PairRank, Sections 3.1 and 3.2.1
    ensemble   unanimity of members                            P2NeurRank, Section 3
    pdgd, dueling, epsilon_greedy, toprank                     the rounds of each, from its own paper
    steps      one step on the pairs of a round                SGD RankNet and PDGD, linear or with a network
    cascade_bandits, cascade_linear   their scores, and which places count as examined
    coltr      the risks that a list and its clicks give candidates
    intervention_aware        expectations over policies, estimates of relevance and of propensities
    nsgd, document_space      what the variants of dueling bandits store, draw and project
    interleaving, plackett_luce                                lists drawn, by enumeration
    network    scores and gradients of a ReLU network          olRankNet, Section 3.1
    olranknet, ollambdarank, p2neurrank                        what they fit
    exposure   exposure of groups, and what each is due        FairExp, Sections 3.2 and 4.2.1
    fairexp, fairswap, violations                              templates, their lists, what these break
    mcfair     the gradient of the disparity of exposure       Yang et al. 2023
    fairco     the controller and its regression               Morik et al. 2020
    metrics    NDCG, pairwise regret, what blocks look like    PairRank, Sections 3.1 and 4.2
    philox     counter -> random words                         Salmon et al. 2011
    relations  certain relations to try the others on          PairRank, Figure 1
"""
